"""The documents are written by hand for speed; the models describe them. Both must agree."""

import json
from typing import Any

import msgspec
import pytest

from core.gathers.gather import GatherSpec, ReplyBy, Resource
from core.shared.call_outcome import CallState
from core.waits.strategy import Outcome
from serve_app.gathers import journals_format as journals
from serve_app.gathers import stream_format as mapper
from serve_app.gathers.journals_models import JournalsResult
from serve_app.gathers.models import GatherView, ResourceRequest, ResourceView
from serve_app.http.fields import BasicAuth, BearerAuth
from storage.gathers.resources import RegisteredResource
from tests.unit.serve_app.container_fixtures import document_of
from tests.unit.serve_app.gathers.fixtures import ADDRESS, GENERAL, JOURNALS, NAMES, OPENED, Gather
from tests.unit.serve_app.waits.test_rendering import conforms

NOTES = b'{"source":"x","delayMs":5,"status":"ok","notes":[{"id":"n-1"},{"id":"n-2"}]}'

STORIES = {
    "just begun": Gather,
    "accepted": lambda asked: Gather(asked).accept(1),
    "one came": lambda asked: Gather(asked).answer(1, NOTES),
    "full": lambda asked: Gather(asked).answer(2, NOTES).answer(1, NOTES).answer(3, NOTES),
    "partial": lambda asked: (
        Gather(asked)
        .fail(3, CallState.REJECTED)
        .answer(2, NOTES)
        .fail(1, CallState.CONNECTION_CLOSED)
    ),
    "nothing came": lambda asked: Gather(asked).accept(1).expire(),
    "all failed": lambda asked: (
        Gather(asked)
        .fail(1, CallState.ERROR)
        .fail(2, CallState.TIMEOUT)
        .fail(3, CallState.REJECTED)
    ),
    "cancelled": lambda asked: Gather(asked).answer(1, NOTES).cancel(),
    "not json": lambda asked: Gather(asked).answer(1, b"<html>").answer(2, b"").answer(3, b"[1]"),
}


def shown(gather: Gather) -> dict[str, Any]:
    return document_of(GatherView.of_wait(gather.state, gather.asked, gather.payloads))


def result(gather: Gather) -> dict[str, Any]:
    patient = journals.patient_of(gather.asked)
    return conforms(JournalsResult, journals.journal_result(gather.state, patient, gather.payloads))


def read(document: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(msgspec.json.encode(document))
    return found


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_every_view_of_a_gather_is_as_described(story: Any) -> None:
    for asked in (GENERAL, JOURNALS):
        assert b"s3cr3t" not in msgspec.json.encode(shown(story(asked)))
    if story(JOURNALS).state.ending:
        result(story(JOURNALS))


# The general words.


def test_a_gather_that_waits_shows_how_each_of_them_stands() -> None:
    gather = Gather().accept(1).fail(2, CallState.CONNECTION_CLOSED, "refused")
    view = shown(gather)
    assert (view["id"], view["status"], view["context"]) == ("g-1", "waiting", {"order": 1.10})
    assert not {"endedAt", "reason", "completeness"} & set(view)
    assert view["resources"] == {
        "resource-1": {"state": "accepted", "at": "2023-11-14T22:13:21.000000Z"},
        "resource-2": {
            "state": "CONNECTION_CLOSED",
            "at": "2023-11-14T22:13:22.000000Z",
            "detail": "refused",
        },
        "resource-3": {"state": "calling"},
    }


def test_a_context_is_given_back_to_the_byte() -> None:
    raw = GatherView.of_wait(Gather().state, GENERAL, {}).to_json()
    assert b'"context":{"order":  1.10}' in raw


def test_a_gather_that_ended_shows_what_came_and_what_did_not() -> None:
    view = shown(Gather().answer(2, b'{"n": 1}').fail(3, CallState.REJECTED, "HTTP 401").expire())
    assert (view["status"], view["completeness"]) == ("completed", "partial")
    assert (view["respondents"], view["errors"], view["received"], view["expected"]) == (1, 1, 3, 3)
    assert view["endedAt"] == "2023-11-14T22:13:30.000000Z"
    assert {name: one["state"] for name, one in view["resources"].items()} == {
        "resource-1": "TIMEOUT",
        "resource-2": "ok",
        "resource-3": "REJECTED",
    }
    assert view["resources"]["resource-2"]["data"] == {"n": 1}
    assert view["resources"]["resource-3"]["detail"] == "HTTP 401"
    assert "data" not in view["resources"]["resource-3"]


def test_what_is_not_json_is_shown_as_text() -> None:
    view = shown(STORIES["not json"](GENERAL))
    data = [view["resources"][name]["data"] for name in NAMES]
    assert data == ["<html>", "", [1]]


def test_an_event_tells_who_answered_and_what() -> None:
    gather = Gather().answer(2, b'{"n":  1}')
    assert mapper.event_document(ADDRESS, gather.entries[-1]) == {
        "source": "resource-2",
        "correlationId": "g-1",
        "status": "ok",
        "at": "2023-11-14T22:13:21.000000Z",
        "data": msgspec.Raw(b'{"n":  1}'),
    }


@pytest.mark.parametrize("state", [CallState.REJECTED, CallState.TIMEOUT, CallState.ERROR])
def test_an_event_without_an_answer_tells_why(state: CallState) -> None:
    document = read(mapper.event_document(ADDRESS, Gather().fail(1, state).entries[-1]))
    assert (document["status"], document["detail"], document["data"]) == (state, "why", None)


def test_the_time_that_ran_out_needs_no_reason() -> None:
    document = read(mapper.event_document(ADDRESS, Gather().expire().entries[-1]))
    assert (document["source"], document["status"]) == ("resource-3", "TIMEOUT")
    assert "detail" not in document


def test_the_summary_counts_and_gives_the_context_back() -> None:
    gather = Gather().answer(1).fail(2, CallState.REJECTED).fail(3, CallState.ERROR)
    assert read(mapper.summary_document(gather.state, GENERAL.context)) == {
        "source": "MUSTER",
        "correlationId": "g-1",
        "status": "COMPLETE",
        "completeness": "partial",
        "respondents": 1,
        "errors": 1,
        "received": 3,
        "expected": 3,
        "context": {"order": 1.1},
        "at": "2023-11-14T22:13:23.000000Z",
    }


# The journals' words.


def test_a_journal_event_is_the_callback_object_with_its_unused_fields_null() -> None:
    gather = Gather(JOURNALS).answer(1, NOTES)
    assert journals.journal_event(ADDRESS, "p-1", gather.entries[-1]) == {
        "source": "resource-1",
        "patientId": "p-1",
        "correlationId": "g-1",
        "delayMs": 5,
        "status": "ok",
        "notes": [{"id": "n-1"}, {"id": "n-2"}],
        "respondents": None,
        "errors": None,
    }


@pytest.mark.parametrize("payload", [b"<html>", b"", b"[]", b"null", b"7", b'{"other":1}'])
def test_an_answer_in_other_words_is_a_journal_event_without_notes(payload: bytes) -> None:
    gather = Gather(JOURNALS).answer(1, payload)
    document = journals.journal_event(ADDRESS, "p-1", gather.entries[-1])
    assert (document["status"], document["notes"], document["delayMs"]) == ("ok", None, None)


@pytest.mark.parametrize(
    ("payload", "outcome", "status"),
    [
        (b'{"status":"REJECTED","notes":null}', Outcome.REJECTED, "REJECTED"),
        (b'{"status":"TIMEOUT"}', Outcome.TIMED_OUT, "TIMEOUT"),
        (b'{"status":"connection_closed"}', Outcome.FAILED, "CONNECTION_CLOSED"),
        (b'{"status":"ERROR","detail":"why"}', Outcome.FAILED, "ERROR"),
    ],
)
def test_what_a_resource_says_of_itself_is_told_in_the_same_words(
    payload: bytes, outcome: Outcome, status: str
) -> None:
    entry = Gather(JOURNALS).answer(1, payload, outcome).entries[-1]
    document = journals.journal_event(ADDRESS, "p-1", entry)
    assert document["status"] == status
    assert ("detail" in document) == (b"detail" in payload)


def test_the_aggregator_sums_up() -> None:
    gather = Gather(JOURNALS).answer(1, NOTES).fail(2, CallState.REJECTED).expire()
    assert read(journals.journal_summary(gather.state, "p-1")) == {
        "source": "AGGREGATOR",
        "patientId": "p-1",
        "correlationId": "g-1",
        "delayMs": None,
        "status": "COMPLETE",
        "notes": None,
        "respondents": 1,
        "errors": 1,
        "received": 3,
        "completeness": "partial",
    }


def test_all_notes_at_once_come_in_the_order_of_the_answers() -> None:
    gather = Gather(JOURNALS)
    for number in (3, 1):
        gather.answer(number, b'{"delayMs":%d,"notes":["of %d"]}' % (number, number))
    document = result(gather.fail(2, CallState.REJECTED, "HTTP 401"))
    assert document["notes"] == ["of 3", "of 1"]
    assert (document["patientId"], document["status"]) == ("p-1", "COMPLETE")
    assert document["completeness"] == "partial"
    assert document["resources"] == {
        "resource-1": {"status": "ok", "delayMs": 1, "notes": 1},
        "resource-2": {"status": "REJECTED", "delayMs": None, "notes": 0, "detail": "HTTP 401"},
        "resource-3": {"status": "ok", "delayMs": 3, "notes": 1},
    }
    assert list(document["resources"]) == list(NAMES)


def test_notes_that_are_no_list_or_no_answer_are_none() -> None:
    gather = Gather(JOURNALS).answer(1, b'{"notes":"many"}').answer(2, b"<html>")
    document = result(gather.answer(3, b'{"notes":["x"]}', Outcome.FAILED))
    assert document["notes"] == []
    assert [one["notes"] for one in document["resources"].values()] == [0, 0, 0]


@pytest.mark.parametrize("context", [b"null", b"{}", b"[]", b'{"other":1}'])
def test_without_a_patient_there_is_none(context: bytes) -> None:
    asked = GatherSpec(asks=JOURNALS.asks, context=msgspec.Raw(context), format="journals")
    assert journals.patient_of(asked) is None


# Resources.


def view_of(**fields: Any) -> dict[str, Any]:
    resource = Resource(url="https://one.example/ask?x=1", **fields)
    registered = RegisteredResource("one", resource, OPENED, OPENED + 1)
    return document_of(ResourceView.of(registered))


def test_a_resource_is_shown_as_it_was_registered() -> None:
    wish = {
        "url": "https://one.example/ask?x=1",
        "method": "PUT",
        "connectTimeoutMs": 1_234,
        "readTimeoutMs": 29_999,
        "ratePerMinute": 60,
        "concurrency": 7,
        "reply": "direct",
    }
    request = ResourceRequest.model_validate_json(json.dumps(wish), strict=True)
    registered = RegisteredResource("one", request.to_resource(), OPENED, OPENED + 1)
    view = document_of(ResourceView.of(registered))
    assert wish.items() <= view.items()
    assert (view["name"], view["headers"], view["auth"]) == ("one", {}, None)
    assert (view["createdAt"], view["updatedAt"]) == (
        "2023-11-14T22:13:20.000000Z",
        "2023-11-14T22:13:21.000000Z",
    )


@pytest.mark.parametrize(
    ("auth", "kind"),
    [
        (BearerAuth(type="bearer", token="s3cr3t-token"), "bearer"),
        (BasicAuth(type="basic", username="s3cr3t-user", password="s3cr3t-password"), "basic"),
    ],
)
def test_no_secret_of_a_resource_is_shown(auth: BearerAuth | BasicAuth, kind: str) -> None:
    headers = {"X-Api-Key": "s3cr3t-key", "Authorization": "s3cr3t-own"}
    view = view_of(headers=headers, authorization=auth.header(), reply=ReplyBy.DIRECT)
    text = json.dumps(view, ensure_ascii=False)
    assert "s3cr3t" not in text
    assert auth.header().partition(" ")[2] not in text
    assert view["auth"] == {"type": kind, "secret": "•••"}
    assert view["headers"] == {"X-Api-Key": "•••", "Authorization": "•••"}
