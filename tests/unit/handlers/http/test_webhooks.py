"""Deliveries to where none may go. No socket can be opened here: whoever tries is found out."""

import re
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from core.dispatch.attempt import AttemptStatus, DeliveryAttempt, decide
from core.dispatch.claim import DeliveryProfile
from core.dispatch.job import JobStatus
from core.shared.call_policy import CallPolicy
from handlers.http.client import HttpClient
from handlers.http.webhooks import Webhooks
from tests.support.deliveries import MADE_AT, delivery

PROFILE = DeliveryProfile(secrets=(b"s" * 32,))
PUBLIC = "93.184.216.34"
NO_SOCKET = "may not use a socket"


@dataclass
class Names:
    """What names lead to, one answer after the other; the last is given again and again."""

    answers: dict[str, list[list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def look(self, host: str) -> list[str]:
        self.asked.append(host)
        if host not in self.answers:
            raise OSError(socket.EAI_NONAME, "unknown name")
        answers = self.answers[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]


NAMES = Names()


@pytest.fixture
def names() -> Names:
    NAMES.answers, NAMES.asked = {}, []
    return NAMES


@pytest.fixture(scope="module")
async def webhooks() -> AsyncIterator[Webhooks]:
    async with HttpClient(CallPolicy(), 1_000, NAMES.look) as caller:
        yield Webhooks(caller, lambda: MADE_AT)


def check_refused(sent: DeliveryAttempt, error: str) -> None:
    """No attempt follows, and nothing is said against the target."""
    assert (sent.status, sent.permanent, sent.code) == (AttemptStatus.CONNECTION_ERROR, True, None)
    assert re.search(error, sent.error or "")
    assert (sent.counts_as_failure, sent.began_at) == (False, MADE_AT)
    step = decide(sent, attempt_count=0, max_retries=5, jitter=0.5)
    assert (step.status, step.attempt_count, step.error) == (JobStatus.ERROR, 1, sent.error)


LITERALS = {
    "loopback": "127.0.0.1",
    "all of loopback": "127.255.255.254",
    "this host": "0.0.0.0",
    "private 10": "10.1.2.3",
    "private 172": "172.31.255.255",
    "private 192": "192.168.0.1",
    "shared": "100.64.0.1",
    "metadata": "169.254.169.254",
    "metadata of containers": "169.254.170.2",
    "metadata elsewhere": "100.100.100.200",
    "protocol assignments": "192.0.0.192",
    "benchmarks": "198.18.0.1",
    "documentation": "203.0.113.7",
    "many": "224.0.0.1",
    "reserved": "240.0.0.1",
    "everybody": "255.255.255.255",
    "version 6 loopback": "[::1]",
    "version 6 nowhere": "[::]",
    "unique local": "[fd00:ec2::254]",
    "link local": "[fe80::1]",
    "site local": "[fec0::1]",
    "many in version 6": "[ff02::1]",
    "documentation in version 6": "[2001:db8::1]",
    "mapped": "[::ffff:127.0.0.1]",
    "mapped in hexadecimal": "[::ffff:a9fe:a9fe]",
    "mapped and written out": "[0:0:0:0:0:ffff:0a00:0001]",
    "compatible": "[::127.0.0.1]",
    "translated": "[::ffff:0:127.0.0.1]",
    "NAT64": "[64:ff9b::7f00:1]",
    "NAT64 to metadata": "[64:ff9b::169.254.169.254]",
    "NAT64 of one network": "[64:ff9b:1::a00:1]",
    "6to4": "[2002:7f00:1::1]",
    "Teredo": "[2001:0:7f00:1::1]",
    "one number": "2130706433",
    "octal": "017700000001",
    "octal parts": "0177.0.0.1",
    "two parts": "127.1",
    "three parts": "10.0.1",
    "nothing": "0",
    "a dot at the end": "127.0.0.1.",
    "wide digits": "①②⑦.⓪.⓪.①",
    "ideographic dots": "127。0。0。1",
}


@pytest.mark.parametrize("host", LITERALS.values(), ids=LITERALS)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_no_delivery_goes_to_an_address_that_may_not_be_called(
    webhooks: Webhooks, names: Names, scheme: str, host: str
) -> None:
    for _ in range(2):  # the second time it is known
        sent = await webhooks.send(delivery(f"{scheme}://{host}:8080/hook"), PROFILE)
        check_refused(sent, "may not be called|is not a valid IP address")
    assert names.asked == []


URLS = {
    "a user before it": "http://example.org@127.0.0.1/",
    "user and password before it": "http://example.org:80@127.0.0.1/",
    "a backslash before it": "http://example.org\\@127.0.0.1/",
    "a fragment after it": "http://127.0.0.1#@example.org/",
    "a file": "file:///etc/passwd",
    "another protocol": "gopher://127.0.0.1:6379/_INFO",
    "a socket of the system": "unix:///var/run/docker.sock",
    "no host": "http:///path",
    "no address at all": "not a url",
    "nothing": "",
    "a line break": "http://127.0.0.1\r\nHost: example.org/",
    "no port": "http://example.org:99999/",
}


@pytest.mark.parametrize("url", URLS.values(), ids=URLS)
async def test_nor_to_what_is_no_address(webhooks: Webhooks, names: Names, url: str) -> None:
    refused = "the request could not be sent|may not be called"
    check_refused(await webhooks.send(delivery(url), PROFILE), refused)
    assert names.asked == []


RESOLVED = [
    "127.0.0.1",
    "10.0.0.1",
    "169.254.169.254",
    "::1",
    "fd00::1",
    "fe80::1%1",
    "::ffff:10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "2002:a00:1::",
]


@pytest.mark.parametrize("address", RESOLVED)
@pytest.mark.parametrize("host", ["inside.example", "localhost", "0x7f.1", "0x7f000001"])
async def test_nor_to_a_name_that_leads_there(
    webhooks: Webhooks, names: Names, host: str, address: str
) -> None:
    names.answers[host] = [[address]]
    sent = await webhooks.send(delivery(f"http://{host}/hook"), PROFILE)
    check_refused(sent, f"{host} resolves to an address that may not be called")
    assert names.asked == [host]


async def test_a_name_is_looked_at_again(
    webhooks: Webhooks, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It led to a public address when it was first called, and leads inside now."""
    monkeypatch.setattr("handlers.http.guarded_resolver.CACHE_SECONDS", 0.0)
    names.answers["turns.example"] = [[PUBLIC], ["127.0.0.1"]]
    job = delivery("http://turns.example/hook")
    with pytest.raises(RuntimeError, match=NO_SOCKET):
        await webhooks.send(job, PROFILE)
    check_refused(await webhooks.send(job, PROFILE), "may not be called")
    assert names.asked == ["turns.example"] * 2


@pytest.mark.parametrize(
    "url",
    [
        f"http://{PUBLIC}/",
        "https://[2606:2800::1]/",
        "http://out.example/",
        "http://mixed.example/",
    ],
)
async def test_what_may_be_called_is_called(webhooks: Webhooks, names: Names, url: str) -> None:
    """As far as one gets without a socket: else the tests above would say nothing."""
    names.answers = {"out.example": [[PUBLIC]], "mixed.example": [["10.0.0.1", PUBLIC]]}
    with pytest.raises(RuntimeError, match=NO_SOCKET):
        await webhooks.send(delivery(url), PROFILE)


async def test_a_name_that_leads_nowhere_may_lead_somewhere_later(
    webhooks: Webhooks, names: Names
) -> None:
    sent = await webhooks.send(delivery("http://nobody.example/"), PROFILE)
    assert (sent.status, sent.permanent) == (AttemptStatus.CONNECTION_ERROR, False)
    assert (sent.error, sent.counts_as_failure) == ("DNS lookup failed for nobody.example", True)
    assert names.asked == ["nobody.example"]


async def test_no_proxy_is_asked_for_a_way_round(
    webhooks: Webhooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://{PUBLIC}:3128")
    check_refused(await webhooks.send(delivery("http://10.0.0.1/"), PROFILE), "may not be called")
