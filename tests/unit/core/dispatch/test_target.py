"""Which addresses are one server's."""

import pytest

from core.dispatch.target import origin_of, target_key_of


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://a.example", "http://a.example"),
        ("http://a.example/hook?x=1#y", "http://a.example"),
        ("http://a.example:80/hook", "http://a.example"),
        ("https://a.example:443/", "https://a.example"),
        ("https://a.example:80/", "https://a.example:80"),
        ("HTTP://User:secret@A.Example.:8080/hook", "http://a.example:8080"),
        ("http://[2001:DB8::1]:8000/", "http://[2001:db8::1]:8000"),
        ("http://a.example:99999/", "http://a.example:99999/"),
        ("http://[half", "http://[half"),
        ("nowhere", "nowhere"),
    ],
)
def test_an_address_leads_to_its_server(url: str, origin: str) -> None:
    assert origin_of(url) == origin
    assert target_key_of(7, url) == (7, origin)
