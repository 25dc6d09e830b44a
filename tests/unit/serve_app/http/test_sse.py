import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.shell.sse import EventDecoder, ServerEvent
from core.waits.state import Wait, WaitLogEntry
from serve_app.http.sse import FROM_START, HEARTBEAT_FRAME, OPENING_FRAME, frame
from serve_app.streams.hub import Frame, LogUpdate, is_at_end
from serve_app.waits.rendering import render_wait_frames
from tests.unit.serve_app.container_fixtures import WaitHistory, numbers


def frames_after(
    cursor: int, wait: Wait, entries: list[WaitLogEntry], counted: list[WaitLogEntry] | None = None
) -> list[Frame]:
    return render_wait_frames(cursor, LogUpdate(wait, entries, counted))


def events(chunk: bytes) -> list[ServerEvent]:
    return EventDecoder().feed(chunk)


def finished() -> WaitHistory:
    story = (
        WaitHistory().callback("a", b'{"paid":\r\n true}').callback("b").event("c").callback("d")
    )
    assert story.now.ending is not None
    assert [entry.kind for entry in story.entries] == ["received", "duplicate", "received", "late"]
    return story


def test_a_frame_has_id_name_and_data() -> None:
    (event,) = events(frame("received", 3, {"a": 1}))
    assert (event.event_id, event.kind, event.data()) == ("3", "received", {"a": 1})


@given(st.text(), st.integers(min_value=0))
def test_no_text_breaks_a_frame(text: str, number: int) -> None:
    (event,) = events(frame("received", number, {"text": text}))
    assert event.data() == {"text": text}


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_stored_json_on_several_lines_arrives_whole(line_end: bytes) -> None:
    story = WaitHistory().callback("a", b'{"paid":' + line_end + b" true}")
    ((_, chunk),) = frames_after(0, story.now, story.entries, story.entries)
    assert events(chunk)[0].data()["data"] == {"paid": True}


def test_the_opening_sets_the_pause_and_a_beat_is_no_event() -> None:
    decoder = EventDecoder()
    assert decoder.feed(OPENING_FRAME + HEARTBEAT_FRAME) == []
    assert decoder.retry == 1.0


def test_a_new_reader_gets_everything_up_to_the_end_and_nothing_after_it() -> None:
    story = finished()
    frames = frames_after(FROM_START, story.now, story.entries, story.entries)
    kinds = [events(chunk)[0].kind for _, chunk in frames]
    assert kinds == ["registered", "received", "duplicate", "received", "ended"]
    assert numbers(frames) == [0, 1, 2, 3, 4]


def test_the_end_tells_the_whole_result_to_a_reader_that_came_back() -> None:
    story = finished()
    ((_, chunk),) = frames_after(3, story.now, story.entries, story.entries)
    ended = events(chunk)[0].data()
    assert ended["status"] == "completed"
    assert ended["output"]["api_response"] == {"paid": True}


def test_the_end_waits_until_all_lines_before_it_are_read() -> None:
    story = finished()
    assert numbers(frames_after(FROM_START, story.now, story.entries[:2])) == [0, 1, 2]


@pytest.mark.parametrize("cursor", range(-1, 7))
def test_whoever_comes_back_gets_the_rest_once(cursor: int) -> None:
    story = finished()
    assert numbers(frames_after(cursor, story.now, story.entries, story.entries)) == [
        number for number in range(5) if number > cursor
    ]
    assert is_at_end(cursor, story.now) == (cursor >= 4)


def test_lines_beyond_what_the_row_tells_are_left_for_the_next_reading() -> None:
    """They may lie after an end that the row, read first, does not show yet."""
    before = WaitHistory().callback("a")
    after = finished()
    assert numbers(frames_after(FROM_START, before.now, after.entries, after.entries)) == [0, 1]
    assert not is_at_end(1, before.now)


@given(st.lists(st.integers(min_value=0, max_value=4), max_size=6))
def test_readings_at_any_moments_add_up_to_the_same_story(moments: list[int]) -> None:
    steps = [
        WaitHistory(),
        WaitHistory().callback("a"),
        WaitHistory().callback("a").callback("b"),
        WaitHistory().callback("a").callback("b").event("c"),
        WaitHistory().callback("a").callback("b").event("c").callback("d"),
    ]
    cursor, seen = FROM_START, []
    for moment in [*sorted(moments), 4]:
        # The log is read after the row, so it may be further by then.
        lines = steps[min(moment + 1, 4)].entries
        frames = frames_after(cursor, steps[moment].now, lines, lines)
        seen += numbers(frames)
        cursor = seen[-1] if seen else cursor
    assert seen == [0, 1, 2, 3, 4]


def test_an_entry_of_the_stream_is_an_entry_of_the_log() -> None:
    story = finished()
    _, chunk = frames_after(FROM_START, story.now, story.entries, story.entries)[1]
    assert json.loads(events(chunk)[0].text)["id"] == 1
