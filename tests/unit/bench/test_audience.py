import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.audience import OPENING, cpu_of, mark, numbers_in, unchunked

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def frame(number: int) -> bytes:
    data = b'{"source":"r","data":{%s"notes":[]}}' % mark(number)
    return b"id: %d\nevent: callback\ndata: %s\n\n" % (number + 7, data)


def chunk(text: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(text), text)


@given(st.lists(st.binary(min_size=1, max_size=300)))
def test_what_was_cut_in_chunks_is_put_together(parts: list[bytes]) -> None:
    assert unchunked(b"".join(map(chunk, parts))) == b"".join(parts)


def test_a_chunk_that_is_not_whole_counts_as_far_as_it_came() -> None:
    assert unchunked(chunk(b"one") + b"5\r\nfou") == b"onefou"
    assert unchunked(chunk(b"one") + b"5") == b"one"


def test_frames_are_found_however_they_are_cut() -> None:
    text = OPENING + frame(0) + b": beat\n\n" + frame(1) + frame(2)
    whole = CHUNKED + chunk(text)
    in_pieces = CHUNKED + b"".join(chunk(text[at : at + 11]) for at in range(0, len(text), 11))
    assert numbers_in(HEAD + text) == numbers_in(whole) == numbers_in(in_pieces) == [0, 1, 2]


def test_what_came_twice_or_in_another_order_is_seen() -> None:
    assert numbers_in(HEAD + frame(0) + frame(0)) == [0, 0]
    assert numbers_in(HEAD + frame(1) + frame(0)) == [1, 0]


def test_a_mark_outside_of_data_is_no_frame() -> None:
    assert numbers_in(HEAD + b": " + mark(3) + b"\n\n") == []


def test_a_stream_that_was_refused_is_no_stream() -> None:
    with pytest.raises(AssertionError, match="429"):
        numbers_in(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n")


def test_a_process_that_is_gone_counts_for_nothing() -> None:
    found = cpu_of([os.getpid(), 2**22 + 1])
    assert list(found) == [os.getpid()]
    assert found[os.getpid()] > 0
