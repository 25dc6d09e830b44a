"""Targets are checked when somebody names them."""

import pytest

from core.shared.call_policy import LOOPBACK, CallPolicy, parse_ports
from core.shared.errors import InvalidError
from handlers.http.target_check import check_target


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/",
        "https://example.org:8443/hook?a=1",
        "http://1.1.1.1/",
        "http://[2606:4700::1111]/",
        "http://127.0.0.1:9/",
        "http://[::1]:9/",
    ],
)
def test_what_may_be_called_passes(url: str) -> None:
    check_target(url, CallPolicy(LOOPBACK), "targetUrl")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "http:///path",
        "example.org",
        "http://example.org:99999/",
        "http://[::1/",
        "http://10.0.0.1/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://169.254.169.254/latest/meta-data",
        "http://2130706433/",
        "http://127.1/",
    ],
)
def test_what_stands_there_literally_and_may_not_be_called_is_refused(url: str) -> None:
    with pytest.raises(InvalidError) as caught:
        check_target(url, CallPolicy(), "[3].targetUrl")
    assert caught.value.field == "[3].targetUrl"


def test_no_target_is_taken_at_a_port_that_may_not_be_called() -> None:
    some = CallPolicy((), parse_ports("443"))
    check_target("https://example.org/hook", some, "target")
    for url in ("http://example.org/hook", "https://example.org:8443/hook"):
        with pytest.raises(InvalidError, match="may not be called") as caught:
            check_target(url, some, "target")
        assert caught.value.field == "target"
