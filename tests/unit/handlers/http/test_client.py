"""A request as it is written, and packed answers. Nothing is sent anywhere."""

import gzip
import zlib
from typing import Any

import pytest

from handlers.http.client import HttpRequest, RequestTarget, decompress, encode_request

TARGET = RequestTarget(
    ("http", "a.example", 80),
    "/hook?a=%20b",
    {"host": "Host: a.example\r\n", "user-agent": "User-Agent: muster\r\n"},
)


def request(**fields: Any) -> HttpRequest:
    values: dict[str, Any] = {
        "url": "http://a.example/",
        "method": "POST",
        "headers": {},
        "body": b"{}",
        "connect_timeout": 1.0,
        "read_timeout": 1.0,
    }
    return HttpRequest(**values | fields)


def test_a_request_as_it_is_written() -> None:
    message = encode_request(request(headers={"X-Own": "1", "x-OTHER": "ä"}), TARGET)
    assert (
        message
        == (
            "POST /hook?a=%20b HTTP/1.1\r\nHost: a.example\r\nUser-Agent: muster\r\n"
            "X-Own: 1\r\nx-OTHER: ä\r\nContent-Length: 2\r\n\r\n{}"
        ).encode()
    )
    assert TARGET.lines.keys() == {"host", "user-agent"}, "the next request has none of it"


@pytest.mark.parametrize("body", [None, b""])
def test_no_body_is_one_of_no_length(body: bytes | None) -> None:
    assert encode_request(request(body=body), TARGET).endswith(b"Content-Length: 0\r\n\r\n")


def test_what_the_request_sets_goes_before_and_its_length_is_ours() -> None:
    headers = {
        "USER-AGENT": "shop",
        "content-length": "99",
        "Transfer-Encoding": "chunked",
    }
    lines = encode_request(request(headers=headers), TARGET).decode().split("\r\n")
    assert lines[1:] == ["Host: a.example", "USER-AGENT: shop", "Content-Length: 2", "", "{}"]


@pytest.mark.parametrize(
    "fields",
    [
        {"headers": {"X-A": "a\r\nX-B: b"}},
        {"headers": {"X-A": "a\nb"}},
        {"headers": {"X-A": "a\rb"}},
        {"headers": {"X-A": "a\0b"}},
        {"headers": {"X\r\nY": "z"}},
        {"method": "POST / HTTP/1.1\r\n"},
        {"method": "HEAD"},
        {"method": "CONNECT"},
    ],
)
def test_what_cannot_be_written_is_not(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"a line|is not supported"):
        encode_request(request(**fields), TARGET)


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_packed_body_is_unpacked_as_far_as_it_is_looked_at(pack: Any) -> None:
    packed = pack(b"hello" * 1_000)
    assert decompress(packed, 5_000, False) == (b"hello" * 1_000, False)
    assert decompress(packed, 7, False) == (b"hellohe", True)
    assert decompress(pack(b"hello"), 5, True) == (b"hello", True)


def test_what_cannot_be_unpacked_stays_as_it_is() -> None:
    assert decompress(b"plain", 9, False) == (b"plain", False)
    assert decompress(b"", 9, False) == (b"", False)
