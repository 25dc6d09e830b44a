import sys
from typing import Any

import msgspec
import pytest

from cli.shell.sse import EventDecoder
from core.gathers.gather import GatherSpec, Question, decode_gather_spec, encode_gather_spec
from core.shared.call_outcome import CallState
from serve_app.gathers import journals_format
from serve_app.gathers.stream_format import gather_format
from serve_app.http.sse import FROM_START
from serve_app.streams.hub import Frame, LogUpdate
from tests.unit.serve_app.container_fixtures import numbers
from tests.unit.serve_app.gathers.fixtures import GENERAL, JOURNALS, Gather


def told(gather: Gather, cursor: int = FROM_START) -> list[Frame]:
    tell = gather_format(gather.asked).render
    return tell(cursor, LogUpdate(gather.state, gather.entries, gather.counted))


def events(frames: list[Frame]) -> list[tuple[str, Any]]:
    decoder = EventDecoder()
    return [(event.kind, event.data()) for _, chunk in frames for event in decoder.feed(chunk)]


def finished(asked: GatherSpec) -> Gather:
    gather = Gather(asked).accept(1).answer(2, b'{"n": 1}').fail(3, CallState.REJECTED)
    return gather.answer(2, b'"again"').fail(1, CallState.CONNECTION_CLOSED).answer(1, b'"late"')


@pytest.mark.parametrize("asked", [GENERAL, JOURNALS], ids=["general", "journals"])
def test_a_gather_is_told_answer_by_answer_and_then_summed_up(asked: GatherSpec) -> None:
    """Neither what was asked, nor a second answer, nor one that is late is part of it."""
    gather = finished(asked)
    kinds = [entry.kind for entry in gather.entries]
    assert kinds == ["asked", "received", "rejected", "duplicate", "failed", "late"]
    frames = told(gather)
    assert numbers(frames) == [2, 3, 5, 6]
    assert [(kind, data["source"], data["status"]) for kind, data in events(frames)] == [
        ("callback", "resource-2", "ok"),
        ("rejected", "resource-3", "REJECTED"),
        ("error", "resource-1", "CONNECTION_CLOSED"),
        ("summary", journals_format.AGGREGATOR if asked is JOURNALS else "MUSTER", "COMPLETE"),
    ]


@pytest.mark.parametrize("cursor", range(-1, 8))
def test_whoever_comes_back_gets_the_rest_once(cursor: int) -> None:
    frames = told(finished(GENERAL), cursor)
    assert numbers(frames) == [number for number in (2, 3, 5, 6) if number > cursor]


def test_each_that_is_missing_at_the_end_is_a_timeout_of_its_own() -> None:
    frames = told(Gather().answer(2).expire())
    assert [(kind, data["source"], data["status"]) for kind, data in events(frames)] == [
        ("callback", "resource-2", "ok"),
        ("timeout", "resource-1", "TIMEOUT"),
        ("timeout", "resource-3", "TIMEOUT"),
        ("summary", "MUSTER", "COMPLETE"),
    ]


def test_a_cancelled_gather_ends_with_what_came_until_then() -> None:
    frames = told(Gather(JOURNALS).answer(2).cancel())
    assert [(kind, data["status"]) for kind, data in events(frames)] == [
        ("callback", "ok"),
        ("summary", "CANCELLED"),
    ]


def test_the_summary_waits_until_all_lines_before_it_are_read() -> None:
    gather = finished(GENERAL)
    tell = gather_format(GENERAL).render
    assert numbers(tell(FROM_START, LogUpdate(gather.state, gather.entries[:3], None))) == [2, 3]


def test_a_gather_that_waits_has_told_nothing_of_promises() -> None:
    assert told(Gather().accept(1).accept(2)) == []


def test_no_frame_tells_what_was_asked() -> None:
    for asked in (GENERAL, JOURNALS):
        text = b"".join(chunk for _, chunk in told(finished(asked)))
        assert b"s3cr3t" not in text
        assert b".example" not in text


def test_the_two_interfaces_have_stories_of_their_own() -> None:
    assert gather_format(GENERAL).name != gather_format(JOURNALS).name


def test_a_story_does_not_keep_all_that_was_asked() -> None:
    body = msgspec.Raw(b'{"a":"body of some size"}')
    asks = tuple(Question(name=f"r{number}", body=body) for number in range(100))
    stored = encode_gather_spec(GatherSpec(asks=asks, context=msgspec.Raw(b'{"patientId":"1"}')))
    before = sys.getrefcount(stored)
    asked = decode_gather_spec(stored)
    assert sys.getrefcount(stored) > before  # bodies and context are parts of it
    story = gather_format(asked)
    del asked
    assert sys.getrefcount(stored) == before
    assert story.name == "gather"
