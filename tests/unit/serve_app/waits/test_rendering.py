"""The documents are written by hand for speed; the models describe them. Both must agree."""

from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from core.waits.explain import explain
from core.waits.messages import Difference, Offer, OfferReply, Reason, Verdict
from core.waits.spec import Source, Strategy
from serve_app.http.event_replies import event_reply_document, verdict_sentence
from serve_app.operations.status import StatusView
from serve_app.waits import rendering
from serve_app.waits.event_models import EventReply, InboxEvent, InboxItem
from serve_app.waits.wait_models import (
    ExplainView,
    LogEntry,
    WaitSummary,
    WaitView,
    required_names,
)
from storage.waits.waits import LogPage, WaitRow
from tests.unit.serve_app.container_fixtures import (
    ADDRESS,
    OPENED,
    WaitHistory,
    document_of,
    spec_of,
)

STORIES = {
    "just registered": WaitHistory(),
    "one came": WaitHistory().callback("a", b'{"n": 1}'),
    "completed": WaitHistory().callback("a", b'{"n": 1}').event("b", b"[2]"),
    "late after the end": WaitHistory().callback("a").event("b").event("c"),
    "timed out": WaitHistory().callback("a").expire(61),
    "cancelled": WaitHistory().cancel(),
    "nothing to wait for": WaitHistory(spec_of()),
    "partial": WaitHistory(
        spec_of(apiCall={"url": "u"}, events=[{"name": "x"}], onTimeout="continue_with_partial")
    ).expire(301),
}


def conforms(model: type[BaseModel], document: Any) -> dict[str, Any]:
    """The document as a client reads it, once the model has accepted it as well."""
    raw = msgspec.json.encode(document)
    model.model_validate_json(raw, strict=True)
    read: dict[str, Any] = msgspec.json.decode(raw)
    return read


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_every_view_of_a_wait_is_as_described(story: WaitHistory) -> None:
    seen = WaitRow(story.now, OPENED if story.now.ending else None, "shard-0")
    document_of(WaitSummary.of(story.now))
    document_of(WaitView.of_row(seen, story.entries))
    for entry in rendering.log_documents(
        story.now, LogPage(story.entries, more=False), -1, story.entries
    ):
        conforms(LogEntry, entry)
    told = explain(story.now, story.parked, OPENED + 1)
    document_of(ExplainView.of(told))


def test_a_completed_wait_shows_its_data_and_its_output() -> None:
    story = STORIES["completed"]
    view = document_of(WaitView.of_row(WaitRow(story.now, OPENED, "s"), story.entries))
    assert view["status"] == "completed"
    assert view["events"]["api_response"]["data"] == {"n": 1}
    assert view["output"]["kafka_event"] == [2]
    assert (view["receivedEvents"], view["missingEvents"]) == (["api_response", "kafka_event"], [])
    assert view["resumedBy"] == "s"


def test_a_wait_that_goes_on_has_neither_end_nor_output() -> None:
    view = document_of(WaitView.of_row(WaitRow(STORIES["one came"].now, None, None), ()))
    assert not {"endedAt", "reason", "output", "partial", "missing", "resumedAt"} & set(view)


def test_a_timeout_tells_what_was_missing_and_hands_nothing_on() -> None:
    story = STORIES["timed out"]
    view = document_of(WaitView.of_row(WaitRow(story.now, None, None), story.entries))
    assert (view["status"], view["missing"]) == ("timeout", ["kafka_event"])
    assert "output" not in view
    assert view["events"]["kafka_event"]["outcome"] == "timed_out"


def test_the_log_begins_with_the_registration_and_keeps_what_came_after_the_end() -> None:
    story = STORIES["late after the end"]
    entries = rendering.log_documents(
        story.now, LogPage(story.entries, more=False), -1, story.entries
    )
    assert [entry["type"] for entry in entries] == [
        "registered",
        "received",
        "received",
        "ended",
        "late",
    ]
    assert [entry["id"] for entry in entries] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("strategy", "required"),
    [
        ("all", ["api_response", "x"]),
        ("any", []),
        ("required_only", ["api_response"]),
        ("custom", ["x"]),
        ("quorum", []),
        ("settled", ["api_response", "x"]),
    ],
)
def test_required_events_follow_the_strategy(strategy: Strategy, required: list[str]) -> None:
    more: dict[str, dict[str, Any]] = {"custom": {"requiredEvents": ["x"]}, "quorum": {"quorum": 1}}
    spec = spec_of(
        apiCall={"url": "u"},
        events=[{"name": "x", "required": False}],
        aggregationStrategy=strategy,
        **more.get(strategy, {}),
    )
    assert required_names(spec) == required


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_sentence(reason: Reason) -> None:
    offer = Offer(
        address=ADDRESS, turn_id="t", event_id="e", source=Source.API, label="bank", payload=b"{}"
    )
    clause = Difference("filter.ok", True, None)
    reply = OfferReply(verdict=Verdict.REJECTED, reason=reason, event="x", clause=clause)
    document = conforms(EventReply, event_reply_document(offer, reply))
    assert document["detail"].endswith(": filter.ok expected true, got null")
    assert "{" not in document["detail"]


def test_stored_data_is_shown_to_the_byte_and_other_bytes_as_text() -> None:
    assert msgspec.json.encode(rendering.json_or_text(b'{"a":  1.10}')) == b'{"a":  1.10}'
    assert rendering.json_or_text(b"not json \xff") == "not json �"


def test_a_moment_is_told_in_utc_to_the_microsecond() -> None:
    assert rendering.to_iso(0.25) == "1970-01-01T00:00:00.250000Z"


def test_an_inbox_row_is_as_described() -> None:
    row = {
        "inbox_id": 1,
        "execution_id": None,
        "correlation_id": "c",
        "event_id": "e",
        "source": "api",
        "label": "bank",
        "verdict": "rejected",
        "reason": "filtered_out",
        "clause": '["filter.ok", true, false]',
        "size": 3,
        "at": OPENED,
        "expires_at": OPENED + 1,
    }
    document = document_of(InboxItem.of(row))
    assert document["clause"] == {"rule": "filter.ok", "expected": True, "actual": False}
    assert "executionId" not in document
    assert "clause" not in document_of(InboxItem.of(row | {"clause": None}))


def test_an_inbox_event_is_as_described() -> None:
    story = WaitHistory().callback("a").event("wrong", b'{"x": 1}', topic="payments")
    document = document_of(InboxEvent.of_parked(9, story.parked[0]))
    assert document["data"] == {"x": 1}
    assert document["reason"] == "label_not_expected"


def test_status_sums_over_the_shards_and_over_nothing_else() -> None:
    report = {
        "placement": "sharded",
        "actors": [
            {"name": "supervisor", "kind": "supervisor", "alive": True, "pid": 1},
            {"name": "shard-0", "kind": "shard", "alive": True, "stats": {"hot": 2, "matched": 1}},
            {"name": "shard-1", "kind": "shard", "alive": False, "restarts": 1},
            {"name": "timer", "kind": "timer", "alive": True, "stats": {"hot": 100}},
        ],
    }
    document = document_of(StatusView.of_report(report, 1.234, 1))
    assert document["totals"]["hot"] == 2
    assert document["totals"]["matched"] == 1
    assert document["totals"]["flushesPerSecond"] == 1.23


def test_status_tells_of_ones_own_pools_and_whether_the_shared_ones_are_well() -> None:
    def pool(number: int, tenant: int) -> dict[str, Any]:
        stats = {
            "pool_no": number,
            "tenant": tenant,
            "code": f"code-{number}",
            "status": "ACTIVE",
            "behind": False,
            "active": 2,
            "concurrency": 10,
            "completed": 5,
            "waiting": 3,
            "breakers": {"open": 1},
        }
        return {"name": f"pool-{number}", "kind": "dispatch", "alive": True, "stats": stats}

    starting = {"name": "pool-4", "kind": "dispatch", "alive": True, "stats": {"pool_no": 4}}
    report = {"placement": "sharded", "actors": [pool(1, 0), pool(2, 7), pool(3, 8), starting]}

    def told(tenant: int) -> list[set[str]]:
        document = document_of(StatusView.of_report(report, 0.0, tenant))
        return [set(actor["stats"]) for actor in document["actors"]]

    well = {"pool_no", "status", "behind", "active", "concurrency"}
    everything = well | {"completed", "waiting", "breakers"}
    assert told(7) == [well, everything, set(), set()]
    assert told(0) == [everything, set(), set(), set()]


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_its_words(reason: Reason) -> None:
    reply = OfferReply(verdict=Verdict.REJECTED, reason=reason)
    sentence = verdict_sentence(reply, Difference("bytes", 10, 11))
    assert sentence.endswith(": bytes expected 10, got 11")


def test_only_the_page_with_the_end_needs_all_that_counts() -> None:
    story = WaitHistory().callback("a", b'{"n": 1}').event("b", b"[2]")
    wait, lines = story.now, story.entries
    assert wait.ending is not None
    assert rendering.includes_end(wait, LogPage(lines, more=False), -1)
    assert not rendering.includes_end(wait, LogPage(lines[:1], more=True), -1)
    assert not rendering.includes_end(wait, LogPage([], more=False), wait.ending.seq)
    assert not rendering.includes_end(WaitHistory().now, LogPage([], more=False), -1)
