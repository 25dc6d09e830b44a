"""What callers of gathers may send: everything else is refused by the name of its field."""

import base64
import json
from typing import Any, TypeVar

import msgspec
import pytest
from pydantic import BaseModel

from core.gathers.gather import GatherMode, OnDisconnect, Question, ReplyBy, Resource
from serve_app.gathers.journals_models import JournalCallback, JournalsRequest
from serve_app.gathers.models import GatherRequest, ResourceRequest
from serve_app.http.json_io import parse_as
from serve_app.http.problems import ProblemError

Model = TypeVar("Model", bound=BaseModel)

RESOURCE: dict[str, Any] = {"url": "https://one.example/ask"}
INLINE: dict[str, Any] = {"name": "one", "url": "https://one.example/ask"}
GATHER: dict[str, Any] = {"resources": ["one"]}
JOURNALS: dict[str, Any] = {"patientId": "p-1"}
CALLBACK: dict[str, Any] = {"source": "resource-1", "correlationId": "g-1"}


def parsed(model: type[Model], document: Any) -> Model:
    return parse_as(model, json.dumps(document).encode())


def refused(model: type[BaseModel], document: Any) -> list[str]:
    """The names of the fields that are at fault."""
    with pytest.raises(ProblemError) as refusal:
        parsed(model, document)
    assert refusal.value.problem.status == 422
    return [fault["field"] for fault in refusal.value.problem.document()["errors"]]


# Resources.


def test_a_resource_needs_an_address_only() -> None:
    assert parsed(ResourceRequest, RESOURCE).to_resource() == Resource(url=RESOURCE["url"])


def test_a_resource_is_kept_with_all_that_was_said_of_it() -> None:
    wish = RESOURCE | {
        "method": "PUT",
        "headers": {"X-Key": "k"},
        "auth": {"type": "bearer", "token": "t"},
        "connectTimeoutMs": 1,
        "readTimeoutMs": 3_600_000,
        "ratePerMinute": 6,
        "concurrency": 7,
        "reply": "direct",
    }
    assert parsed(ResourceRequest, wish).to_resource() == Resource(
        url=RESOURCE["url"],
        method="PUT",
        headers={"X-Key": "k"},
        authorization="Bearer t",
        connect_timeout=0.001,
        read_timeout=3_600.0,
        rate_per_minute=6,
        concurrency=7,
        reply=ReplyBy.DIRECT,
    )


def test_a_name_and_a_password_become_a_header() -> None:
    auth = {"type": "basic", "username": "jörg", "password": "a:b\n c"}
    resource = parsed(ResourceRequest, RESOURCE | {"auth": auth}).to_resource()
    assert resource.authorization is not None
    kind, _, raw = resource.authorization.partition(" ")
    assert (kind, base64.b64decode(raw).decode()) == ("Basic", "jörg:a:b\n c")


@pytest.mark.parametrize(
    "url",
    [
        "http://one.example",
        "https://one.example:8443/a/b?c=d&e=%20",
        "http://127.0.0.1:9000/",
        "http://[::1]:9000/a",
        "http://one.example?x",
    ],
)
def test_an_address_is_of_http(url: str) -> None:
    assert parsed(ResourceRequest, {"url": url}).url == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "one.example",
        "//one.example",
        "ftp://one.example",
        "file:///etc/passwd",
        "http://",
        "http:///path",
        "http://user@one.example",
        "http://user:password@one.example/",
        "http://one.example\\@127.0.0.1/",
        "http://one.example/ a",
        "http://one.example/\n",
        "http://one.example/a#b",
        "http://one.example/" + "a" * 2_000,
        " http://one.example",
        7,
        None,
    ],
)
def test_what_is_no_address_is_refused(url: Any) -> None:
    assert refused(ResourceRequest, {"url": url}) == ["url"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"url": ...}, "url"),
        ({"colour": "red"}, "colour"),
        ({"method": "DELETE"}, "method"),
        ({"method": "post"}, "method"),
        ({"connectTimeoutMs": 0}, "connectTimeoutMs"),
        ({"connectTimeoutMs": 1.5}, "connectTimeoutMs"),
        ({"readTimeoutMs": 3_600_001}, "readTimeoutMs"),
        ({"readTimeoutMs": "1000"}, "readTimeoutMs"),
        ({"ratePerMinute": 0}, "ratePerMinute"),
        ({"ratePerMinute": True}, "ratePerMinute"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 10_001}, "concurrency"),
        ({"concurrency": None}, "concurrency"),
        ({"reply": "pigeon"}, "reply"),
        ({"headers": {"X Y": "z"}}, "headers"),
        ({"headers": {"": "z"}}, "headers"),
        ({"headers": {"X\r\nY": "z"}}, "headers"),
        ({"headers": {"X": "a\r\nY: b"}}, "headers"),
        ({"headers": {"X": "ä"}}, "headers"),
        ({"headers": {f"X-{n}": "" for n in range(51)}}, "headers"),
        ({"headers": {"X": 1}}, "headers.X"),
        ({"headers": ["X: 1"]}, "headers"),
        ({"auth": "Bearer t"}, "auth"),
        ({"auth": {}}, "auth"),
        ({"auth": {"type": "digest"}}, "auth"),
        ({"auth": {"type": "bearer"}}, "auth.token"),
        ({"auth": {"type": "bearer", "token": ""}}, "auth.token"),
        ({"auth": {"type": "bearer", "token": "a b"}}, "auth.token"),
        ({"auth": {"type": "bearer", "token": "a\nb"}}, "auth.token"),
        ({"auth": {"type": "bearer", "token": "t", "realm": "x"}}, "auth.realm"),
        ({"auth": {"type": "basic", "username": "a:b", "password": "p"}}, "auth.username"),
        ({"auth": {"type": "basic", "username": "a"}}, "auth.password"),
    ],
)
def test_a_fault_of_a_resource_is_named(fields: dict[str, Any], named: str) -> None:
    document = {name: value for name, value in (RESOURCE | fields).items() if value is not ...}
    assert refused(ResourceRequest, document) == [named]


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "CONNECTION",
        "X-Correlation-Id",
        "x-callback-url",
        "Idempotency-Key",
        "traceparent",
    ],
)
def test_headers_that_muster_sets_are_its_own(name: str) -> None:
    assert refused(ResourceRequest, RESOURCE | {"headers": {name: "x"}}) == ["headers"]
    inline = INLINE | {"headers": {name: "x"}}
    assert refused(GatherRequest, {"resources": [inline]}) == ["resources[0].headers"]


def test_a_refusal_does_not_repeat_a_secret() -> None:
    auth = {"type": "bearer", "token": "s3cr3t\n"}
    headers = {"X-Key": "s3cr3t\n"}
    for fields in ({"auth": auth}, {"headers": headers}):
        with pytest.raises(ProblemError) as refusal:
            parsed(ResourceRequest, RESOURCE | fields)
        assert "s3cr3t" not in json.dumps(refusal.value.problem.document())


# Gathers.


def test_a_gather_needs_somebody_to_ask_only() -> None:
    wish = parsed(GatherRequest, GATHER)
    asked = wish.to_spec("00-1-2-01")
    assert asked.asks == (Question(name="one"),)
    assert (asked.mode, asked.on_disconnect, asked.grace) == (GatherMode.STREAM, "cancel", 2.0)
    assert (bytes(asked.context), asked.trace, asked.format) == (b"{}", "00-1-2-01", "")
    assert wish.timeout_ms == 10_000


def test_a_gather_is_kept_with_all_that_was_said_of_it() -> None:
    inline = INLINE | {
        "name": "two",
        "method": "GET",
        "headers": {"X-Key": "k"},
        "body": {"a": [1, None]},
        "reply": "callback",
    }
    wish = parsed(
        GatherRequest,
        {
            "resources": ["one", inline],
            "timeoutMs": 5,
            "mode": "wait",
            "context": {"n": 10**30},
            "onDisconnect": "detach",
            "graceMs": 0,
        },
    )
    asked = wish.to_spec("")
    one, two = asked.asks
    assert one == Question(name="one")
    assert two.inline == Resource(
        url=INLINE["url"], method="GET", headers={"X-Key": "k"}, reply=ReplyBy.CALLBACK
    )
    assert msgspec.json.decode(bytes(two.body)) == {"a": [1, None]}
    assert (asked.mode, asked.on_disconnect, asked.grace) == (
        GatherMode.WAIT,
        OnDisconnect.DETACH,
        0.0,
    )
    assert bytes(asked.context) == b'{"n":%d}' % 10**30
    assert wish.timeout_ms == 5


def test_one_that_comes_with_the_request_answers_directly_unless_it_says_otherwise() -> None:
    (ask,) = parsed(GatherRequest, {"resources": [INLINE]}).to_spec("").asks
    assert ask.inline is not None
    assert (ask.inline.reply, bytes(ask.body)) == (ReplyBy.DIRECT, b"")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"resources": ...}, "resources"),
        ({"resources": []}, "resources"),
        ({"resources": "one"}, "resources"),
        ({"resources": [f"r{n}" for n in range(101)]}, "resources"),
        ({"resources": ["one", "one"]}, "resources"),
        ({"resources": ["one", INLINE]}, "resources"),
        ({"resources": [""]}, "resources[0]"),
        ({"resources": ["one", "two words"]}, "resources[1]"),
        ({"resources": ["../one"]}, "resources[0]"),
        ({"resources": ["a" * 101]}, "resources[0]"),
        ({"resources": [7]}, "resources[0]"),
        ({"resources": [{"name": "one"}]}, "resources[0].url"),
        ({"resources": [{"url": INLINE["url"]}]}, "resources[0].name"),
        ({"resources": ["two", INLINE | {"url": "one"}]}, "resources[1].url"),
        ({"resources": [INLINE | {"name": "a/b"}]}, "resources[0].name"),
        ({"resources": [INLINE | {"method": "TRACE"}]}, "resources[0].method"),
        ({"resources": [INLINE | {"reply": "later"}]}, "resources[0].reply"),
        ({"resources": [INLINE | {"concurrency": 1}]}, "resources[0].concurrency"),
        ({"timeoutMs": 0}, "timeoutMs"),
        ({"timeoutMs": -1}, "timeoutMs"),
        ({"timeoutMs": 1.0}, "timeoutMs"),
        ({"timeoutMs": "1000"}, "timeoutMs"),
        ({"timeoutMs": 2**31}, "timeoutMs"),
        ({"timeoutMs": None}, "timeoutMs"),
        ({"mode": "both"}, "mode"),
        ({"context": []}, "context"),
        ({"context": "text"}, "context"),
        ({"onDisconnect": "ignore"}, "onDisconnect"),
        ({"graceMs": -1}, "graceMs"),
        ({"graceMs": 60_001}, "graceMs"),
        ({"strategy": "SSE"}, "strategy"),
    ],
)
def test_a_fault_of_a_gather_is_named(fields: dict[str, Any], named: str) -> None:
    document = {name: value for name, value in (GATHER | fields).items() if value is not ...}
    assert refused(GatherRequest, document) == [named]


# Journals.


def test_journals_need_a_patient_only() -> None:
    wish = parsed(JournalsRequest, JOURNALS)
    assert (wish.mode, wish.timeout_ms, wish.grace_ms) == (GatherMode.STREAM, None, 2_000)
    assert [wish.delay(index) for index in range(3)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("delays", "each"),
    [
        ("1000,2000,15000", [1000, 2000, 15000]),
        ([1000, 2000, 15000], [1000, 2000, 15000]),
        (" 1000 , -1 ", [1000, -1, 0]),
        ("5", [5, 0, 0]),
        ([5], [5, 0, 0]),
        ("", [0, 0, 0]),
        ([], [0, 0, 0]),
        (",,7", [0, 0, 7]),
        ("1,2,3,4,5", [1, 2, 3]),
        ([1, 2, 3, 4], [1, 2, 3]),
        ("-1,-2,999999999", [-1, -2, 999_999_999]),
    ],
)
def test_delays_are_a_text_or_a_list_of_any_length(delays: Any, each: list[int]) -> None:
    wish = parsed(JournalsRequest, JOURNALS | {"delays": delays})
    assert [wish.delay(index) for index in range(3)] == each


@pytest.mark.parametrize(
    ("strategy", "mode"),
    [
        ("SSE", GatherMode.STREAM),
        ("sse", GatherMode.STREAM),
        ("WAIT_FOR_EVERYONE", GatherMode.WAIT),
        ("Wait_For_Everyone", GatherMode.WAIT),
    ],
)
def test_a_strategy_is_known_in_any_case(strategy: str, mode: GatherMode) -> None:
    assert parsed(JournalsRequest, JOURNALS | {"strategy": strategy}).mode is mode


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"patientId": ...}, "patientId"),
        ({"patientId": ""}, "patientId"),
        ({"patientId": 7}, "patientId"),
        ({"patientId": "p" * 256}, "patientId"),
        ({"delays": "1000;2000"}, "delays"),
        ({"delays": "one"}, "delays"),
        ({"delays": "1.5"}, "delays"),
        ({"delays": "٣"}, "delays"),
        ({"delays": "1" * 10}, "delays"),
        ({"delays": [1.5]}, "delays"),
        ({"delays": ["1"]}, "delays"),
        ({"delays": [True]}, "delays"),
        ({"delays": [10**10]}, "delays"),
        ({"delays": 5}, "delays"),
        ({"delays": None}, "delays"),
        ({"timeoutMs": 0}, "timeoutMs"),
        ({"timeoutMs": -5}, "timeoutMs"),
        ({"timeoutMs": "5"}, "timeoutMs"),
        ({"timeoutMs": 5.5}, "timeoutMs"),
        ({"strategy": "ALL"}, "strategy"),
        ({"strategy": ""}, "strategy"),
        ({"strategy": None}, "strategy"),
        ({"onDisconnect": "stay"}, "onDisconnect"),
        ({"graceMs": -1}, "graceMs"),
        ({"patient": "p"}, "patient"),
    ],
)
def test_a_fault_of_journals_is_named(fields: dict[str, Any], named: str) -> None:
    document = {name: value for name, value in (JOURNALS | fields).items() if value is not ...}
    assert refused(JournalsRequest, document) == [named]


# Callbacks.


def test_a_callback_may_carry_more_than_is_known() -> None:
    callback = parsed(JournalCallback, CALLBACK | {"notes": [{"id": 1}, "x"], "extra": {"a": 1}})
    assert (callback.source, callback.correlation_id) == ("resource-1", "g-1")
    assert callback.notes == [{"id": 1}, "x"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"source": ...}, "source"),
        ({"source": ""}, "source"),
        ({"source": "a b"}, "source"),
        ({"correlationId": ...}, "correlationId"),
        ({"correlationId": ""}, "correlationId"),
        ({"correlationId": "c" * 256}, "correlationId"),
        ({"delayMs": "5"}, "delayMs"),
        ({"status": 200}, "status"),
        ({"notes": "many"}, "notes"),
    ],
)
def test_a_fault_of_a_callback_is_named(fields: dict[str, Any], named: str) -> None:
    document = {name: value for name, value in (CALLBACK | fields).items() if value is not ...}
    assert refused(JournalCallback, document) == [named]
