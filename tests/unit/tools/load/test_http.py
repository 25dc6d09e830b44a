"""The raw HTTP of load generators: where a response ends."""

import pytest

from tools.load.http import split_response

ANSWER = (
    b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 11\r\n\r\n{"ok":true}'
)
HEAD = ANSWER.partition(b"\r\n\r\n")[0].lower()


def test_an_answer_is_taken_once_it_is_whole() -> None:
    assert split_response(ANSWER) == (200, HEAD, b'{"ok":true}')


@pytest.mark.parametrize("length", range(len(ANSWER)))
def test_a_part_of_an_answer_is_none_yet(length: int) -> None:
    assert split_response(ANSWER[:length]) is None


def test_the_status_of_a_refusal_is_seen() -> None:
    assert split_response(b"HTTP/1.1 429 Too Many\r\ncontent-length: 0\r\n\r\n") == (
        429,
        b"http/1.1 429 too many\r\ncontent-length: 0",
        b"",
    )


def test_an_answer_without_a_length_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="without a length"):
        split_response(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")


def test_an_answer_that_may_not_have_a_body_needs_no_length() -> None:
    raw = b"HTTP/1.1 204 No Content\r\nserver: x\r\n\r\n"
    assert split_response(raw) == (204, b"http/1.1 204 no content\r\nserver: x", b"")
