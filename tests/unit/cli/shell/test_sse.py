from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cli.shell.sse import EventDecoder, ServerEvent

STREAM = (
    "retry: 1000\n\n"
    "event: registered\nid: 0\ndata: {}\n\n"
    ": beat\n\n"
    'event: received\r\nid: 1\r\ndata: {"text": "one\u2028line, ü"}\r\n\r\n'
    "data: first\rdata: second\r\r"
    "event: empty\n\n"
    'event: ended\nid: 2\nfuture: field\ndata:{"status": "completed"}\n\n'
    "event: cut off\ndata: {"
).encode()

EVENTS = [
    ServerEvent("registered", "0", "{}"),
    ServerEvent("received", "1", '{"text": "one\u2028line, ü"}'),
    ServerEvent("message", None, "first\nsecond"),
    ServerEvent("ended", "2", '{"status": "completed"}'),
]


@given(st.lists(st.integers(min_value=0, max_value=len(STREAM)), max_size=40))
def test_a_stream_reads_the_same_however_it_is_cut(cuts: list[int]) -> None:
    decoder = EventDecoder()
    edges = [0, *sorted(cuts), len(STREAM)]
    events = [event for start, end in pairwise(edges) for event in decoder.feed(STREAM[start:end])]
    assert events == EVENTS
    assert decoder.retry == 1.0


def test_data_is_an_object_or_nothing() -> None:
    assert EVENTS[3].data() == {"status": "completed"}
    assert EVENTS[2].data() == {}
    assert ServerEvent("x", None, "[1]").data() == {}


@given(st.binary())
def test_no_bytes_break_the_reader(chunk: bytes) -> None:
    EventDecoder().feed(chunk)
