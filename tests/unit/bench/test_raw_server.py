"""The raw HTTP of measured servers: where a request ends."""

import pytest

from bench.peers.raw_server import request_length

REQUEST_HEAD = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\n"
REQUEST = REQUEST_HEAD + b"{...}"


def test_a_request_ends_with_its_body() -> None:
    assert request_length(REQUEST) == len(REQUEST)
    assert request_length(REQUEST + REQUEST) == len(REQUEST)


@pytest.mark.parametrize("length", range(len(REQUEST_HEAD)))
def test_without_a_whole_head_nothing_is_known(length: int) -> None:
    assert request_length(REQUEST_HEAD[:length]) == 0


def test_a_request_without_a_body_ends_with_its_head() -> None:
    request = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
    assert request_length(request) == len(request)


def test_the_length_may_come_last_or_first() -> None:
    first = b"POST / HTTP/1.1\r\ncontent-length:2\r\nHost: here\r\n\r\n{}"
    last = b"POST / HTTP/1.1\r\nHost: here\r\ncontent-length: 2\r\n\r\n{}"
    assert request_length(first) == len(first)
    assert request_length(last) == len(last)
