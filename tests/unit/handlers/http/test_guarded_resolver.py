"""The guard in front of every call. No socket can be opened here: whoever tries is found out."""

from collections.abc import AsyncIterator

import pytest

from core.shared.call_outcome import CallState
from core.shared.call_policy import LOOPBACK, CallPolicy, parse_ports
from handlers.http.client import HttpClient, HttpFailure, HttpRequest
from handlers.http.guarded_resolver import (
    ForbiddenDestinationError,
    GuardedResolver,
    check_destination,
)
from tests.unit.handlers.http.fake_dns import PUBLIC, FakeDns


async def resolve(names: FakeDns, host: str, destinations: CallPolicy = PUBLIC) -> list[str]:
    return await GuardedResolver(destinations, names.look).resolve(0, host)


NAMES = FakeDns()


@pytest.fixture(scope="module")
async def outbound() -> AsyncIterator[HttpClient]:
    """One for all: to read the system's authorities takes longer than all calls together."""
    async with HttpClient(PUBLIC, 1_000, NAMES.look) as opened:
        yield opened


@pytest.fixture
def names() -> FakeDns:
    NAMES.answers, NAMES.asked = {}, []
    return NAMES


async def call(outbound: HttpClient, url: str) -> HttpFailure:
    answer = await outbound.call(request(url))
    assert isinstance(answer, HttpFailure)
    return answer


def request(url: str) -> HttpRequest:
    return HttpRequest(
        url=url, method="POST", headers={}, body=b"{}", connect_timeout=1.0, read_timeout=1.0
    )


# Names.


@pytest.mark.parametrize(
    "private",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:127.0.0.1", "0.0.0.0"],
)
async def test_a_name_that_leads_to_a_private_address_leads_nowhere(private: str) -> None:
    with pytest.raises(ForbiddenDestinationError, match=r"inside\.example resolves to an address"):
        await resolve(FakeDns({"inside.example": [[private]]}), "inside.example")


async def test_of_several_addresses_only_those_that_may_be_called_are_kept() -> None:
    names = FakeDns({"mixed.example": [["127.0.0.1", "93.184.216.34", "::1", "2606:2800::1"]]})
    assert await resolve(names, "mixed.example") == ["93.184.216.34", "2606:2800::1"]


async def test_allowed_networks_are_kept_as_well() -> None:
    names = FakeDns({"mixed.example": [["127.0.0.1", "10.0.0.1"]]})
    assert await resolve(names, "mixed.example", CallPolicy(LOOPBACK)) == ["127.0.0.1"]


async def test_each_look_is_checked_anew() -> None:
    names = FakeDns({"turns.example": [["93.184.216.34"], ["127.0.0.1"]]})
    assert await resolve(names, "turns.example") == ["93.184.216.34"]
    with pytest.raises(ForbiddenDestinationError):
        await resolve(names, "turns.example")


async def test_a_name_that_leads_nowhere_is_no_secret() -> None:
    with pytest.raises(OSError, match="unknown name"):
        await resolve(FakeDns(), "nobody.example")


# Addresses in place of names.


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "0.0.0.0",
        "169.254.169.254",
        "[::1]",
        "::1",
        "[::ffff:127.0.0.1]",
        "::ffff:7f00:1",
        "fe80::1%eth0",
        "2130706433",
        "017700000001",
        "127.1",
        "127.0.1",
        "0",
        "0177.0.0.1",
        "127.0.0.1.",
        "1.2.3.4.5",
        "::1::",
    ],
)
def test_an_address_that_may_not_be_called_is_refused_in_every_spelling(host: str) -> None:
    with pytest.raises(ForbiddenDestinationError):
        check_destination(host, 80, PUBLIC)


@pytest.mark.parametrize(
    "host", ["8.8.8.8", "[2606:2800::1]", "example.org", "0x7f.1", "1and1.com"]
)
def test_public_addresses_and_names_pass(host: str) -> None:
    check_destination(host, 80, PUBLIC)


SOME_PORTS = CallPolicy(LOOPBACK, parse_ports("443,8000-8100"))


def test_a_port_that_is_not_named_is_refused_at_every_host() -> None:
    for host in ("example.org", "8.8.8.8", "127.0.0.1"):
        check_destination(host, 443, SOME_PORTS)
        with pytest.raises(ForbiddenDestinationError, match="port 22 may not be called"):
            check_destination(host, 22, SOME_PORTS)


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("http://example.org/", 80),
        ("https://example.org:22/", 22),
        ("http://127.0.0.1:6379/", 6379),
        ("http://[::1]:25/", 25),
        ("http://user@example.org:8101/", 8101),
    ],
)
async def test_no_name_is_asked_for_at_a_port_that_may_not_be_called(
    url: str, port: int, names: FakeDns
) -> None:
    names.answers["example.org"] = [["93.184.216.34"]]
    async with HttpClient(SOME_PORTS, 1_000, names.look) as guarded:
        answer = await call(guarded, url)
    assert (answer.state, names.asked) == (CallState.ERROR, [])
    assert answer.detail == f"port {port} may not be called: it is not in MUSTER_CALL_PORTS"


# Whole calls.

SPELLINGS = {
    "plain": "http://127.0.0.1/",
    "with a port": "http://127.0.0.1:8080/",
    "one number": "http://2130706433/",
    "octal": "http://017700000001/",
    "octal parts": "http://0177.0.0.1/",
    "short": "http://127.1/",
    "a dot at the end": "http://127.0.0.1./",
    "mapped": "http://[::ffff:127.0.0.1]/",
    "mapped in hexadecimal": "http://[::ffff:7f00:1]/",
    "version 6": "http://[::1]/",
    "with a zone": "http://[fe80::1%25lo]/",
    "anywhere": "http://0.0.0.0/",
    "nothing": "http://0/",
    "metadata": "http://169.254.169.254/latest/meta-data/",
    "wide digits": "http://①②⑦.⓪.⓪.①/",
    "ideographic dots": "http://127。0。0。1/",
    "a user before it": "http://example.org@127.0.0.1/",
    "user and password before it": "http://example.org:80@127.0.0.1/",
    "a backslash before it": "http://example.org\\@127.0.0.1/",
    "a fragment before it": "http://127.0.0.1#@example.org/",
    "other scheme": "file:///etc/passwd",
    "other scheme still": "gopher://127.0.0.1:6379/_INFO",
    "no host": "http:///path",
    "no address": "not a url",
    "a line break": "http://127.0.0.1\r\n/",
}


@pytest.mark.parametrize("url", SPELLINGS.values(), ids=SPELLINGS)
async def test_no_spelling_of_a_private_address_is_called(
    outbound: HttpClient, names: FakeDns, url: str
) -> None:
    answer = await call(outbound, url)
    assert (answer.state, names.asked) == (CallState.ERROR, [])


@pytest.mark.parametrize(
    "host", ["0x7f.1", "0x7f000001", "localhost", "inside.example", "%31%32%37.0.0.1"]
)
async def test_what_only_the_system_can_read_is_checked_by_what_it_reads(
    outbound: HttpClient, names: FakeDns, host: str
) -> None:
    names.answers[host] = [["127.0.0.1"]]
    answer = await call(outbound, f"http://{host}/")
    assert answer.state is CallState.ERROR
    assert answer.detail.startswith(f"{host} resolves to an address that may not be called: ")
    assert names.asked == [host]


@pytest.mark.parametrize(
    "url", ["http://mixed.example/", "http://93.184.216.34/", "http://[2606:2800::1]/"]
)
async def test_a_public_address_is_called(outbound: HttpClient, names: FakeDns, url: str) -> None:
    """As far as one gets without a socket: else the tests above would say nothing."""
    names.answers["mixed.example"] = [["127.0.0.1", "93.184.216.34"]]
    with pytest.raises(RuntimeError, match="may not use a socket"):
        await call(outbound, url)


async def test_an_unknown_name_is_told_as_one(outbound: HttpClient, names: FakeDns) -> None:
    answer = await call(outbound, "http://nobody.example/")
    assert answer.state is CallState.CONNECTION_CLOSED
    assert answer.detail == "DNS lookup failed for nobody.example"
    assert names.asked == ["nobody.example"]


async def test_a_call_is_not_led_round_the_guard_by_a_proxy(
    outbound: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://93.184.216.34:3128")
    monkeypatch.setenv("http_proxy", "http://93.184.216.34:3128")
    assert (await call(outbound, "http://10.0.0.1/")).state is CallState.ERROR


async def test_what_is_not_opened_cannot_call() -> None:
    with pytest.raises(RuntimeError, match="not opened"):
        await HttpClient(PUBLIC, 10).call(request("http://a.example"))
