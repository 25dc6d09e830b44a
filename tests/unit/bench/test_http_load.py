import pytest

from bench.http_load import split_answer

ANSWER = (
    b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 11\r\n\r\n{"ok":true}'
)


def test_an_answer_is_taken_once_it_is_whole() -> None:
    assert split_answer(ANSWER) == (200, b'{"ok":true}')


@pytest.mark.parametrize("length", range(len(ANSWER)))
def test_a_part_of_an_answer_is_none_yet(length: int) -> None:
    assert split_answer(ANSWER[:length]) is None


def test_the_status_of_a_refusal_is_seen() -> None:
    assert split_answer(b"HTTP/1.1 429 Too Many\r\ncontent-length: 0\r\n\r\n") == (429, b"")


def test_an_answer_without_a_length_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="without a length"):
        split_answer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
