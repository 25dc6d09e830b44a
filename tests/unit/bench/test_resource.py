import pytest

from bench.peers.resource import ANSWER, DOCUMENT, request_length

HEAD = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\n"
REQUEST = HEAD + b"{...}"


def test_a_request_ends_with_its_body() -> None:
    assert request_length(REQUEST) == len(REQUEST)
    assert request_length(REQUEST + REQUEST) == len(REQUEST)


@pytest.mark.parametrize("length", range(len(HEAD)))
def test_without_a_whole_head_nothing_is_known(length: int) -> None:
    assert request_length(HEAD[:length]) == 0


def test_a_request_without_a_body_ends_with_its_head() -> None:
    request = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
    assert request_length(request) == len(request)


def test_the_length_may_come_last_or_first() -> None:
    first = b"POST / HTTP/1.1\r\ncontent-length:2\r\nHost: here\r\n\r\n{}"
    last = b"POST / HTTP/1.1\r\nHost: here\r\ncontent-length: 2\r\n\r\n{}"
    assert request_length(first) == len(first)
    assert request_length(last) == len(last)


def test_the_answer_says_its_own_length() -> None:
    assert b"content-length: %d\r\n" % len(DOCUMENT) in ANSWER
    assert ANSWER.endswith(b"\r\n\r\n" + DOCUMENT)
