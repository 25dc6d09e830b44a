import json
from typing import Any

import msgspec
import pytest

from core.gathers.gather import (
    CallBatch,
    Completeness,
    GatherCall,
    GatherMode,
    GatherSpec,
    GatherSummary,
    OnDisconnect,
    Question,
    ReplyBy,
    Resource,
    build_call_batch,
    call_body,
    callback_url,
    decode_call_batch,
    decode_gather_spec,
    encode_call_batch,
    encode_gather_spec,
    failure,
    outcome_reported,
    state_of,
    state_of_outcome,
    summarize,
    wait_spec_of,
)
from core.shared.call_outcome import CallState
from core.waits.spec import Source, Strategy, decode_spec, encode_spec
from core.waits.state import PENDING, EventState
from core.waits.strategy import Outcome, Status
from tests.unit.core.waits.builders import (
    ADDRESS,
    START,
    SingleCorrelation,
    cancel,
    expire,
    offer,
    register,
)

NAMES = ("one", "two", "three")
ASKS = tuple(Question(name=name) for name in NAMES)
SPEC = wait_spec_of(ASKS, 10.0)
KNOWN = {
    "one": Resource(url="http://one.example/ask"),
    "two": Resource(url="http://two.example", reply=ReplyBy.DIRECT, concurrency=3),
}
URLS = [f"http://muster.example/{name}" for name in NAMES]


def gathered(**outcomes: Outcome) -> SingleCorrelation:
    """A gather in which these have answered, each in its own way."""
    world = SingleCorrelation()
    world.say(register(SPEC), START)
    for second, (name, outcome) in enumerate(outcomes.items(), start=1):
        world.say(offer(f"e-{name}", label=name, outcome=outcome), START + second)
    return world


def errand(asked: GatherSpec, known: dict[str, Resource] | None = None) -> CallBatch:
    urls = URLS[: len(asked.asks)]
    return build_call_batch(asked, ADDRESS, START + 10, KNOWN if known is None else known, urls)


def called(asked: GatherSpec, known: dict[str, Resource] | None = None) -> list[GatherCall]:
    return list(errand(asked, known).calls)


def told(call: GatherCall, context: bytes = b"null") -> Any:
    return json.loads(call_body(call, context))


# What is waited for.


def test_a_gather_waits_for_an_answer_of_any_kind_from_each() -> None:
    assert (SPEC.strategy, SPEC.timeout, SPEC.gather) == (Strategy.SETTLED, 10.0, True)
    assert SPEC.names == NAMES
    assert {(event.source, event.label) for event in SPEC.events} == {
        (Source.API, name) for name in NAMES
    }
    assert decode_spec(encode_spec(SPEC)) == SPEC


@pytest.mark.parametrize(
    ("outcomes", "expected", "completeness"),
    [
        ({}, GatherSummary(3, 0, 0, 0), Completeness.EMPTY),
        ({"one": Outcome.RECEIVED}, GatherSummary(3, 1, 0, 1), Completeness.PARTIAL),
        (dict.fromkeys(NAMES, Outcome.RECEIVED), GatherSummary(3, 3, 0, 3), Completeness.FULL),
        (
            {"one": Outcome.REJECTED, "two": Outcome.FAILED, "three": Outcome.TIMED_OUT},
            GatherSummary(3, 0, 2, 3),
            Completeness.EMPTY,
        ),
        (
            {"one": Outcome.REJECTED, "two": Outcome.RECEIVED, "three": Outcome.RECEIVED},
            GatherSummary(3, 2, 0, 3),
            Completeness.PARTIAL,
        ),
    ],
)
def test_answers_are_counted_by_what_they_are(
    outcomes: dict[str, Outcome], expected: GatherSummary, completeness: Completeness
) -> None:
    wait = gathered(**outcomes).waiting_or_ended
    assert summarize(wait) == expected
    assert summarize(wait).completeness is completeness
    assert wait.status is (Status.COMPLETED if expected.received == 3 else Status.WAITING)


def test_those_that_are_missing_at_the_end_are_errors() -> None:
    world = gathered(one=Outcome.RECEIVED, two=Outcome.REJECTED)
    world.say(expire(START + 10), START + 10)
    assert summarize(world.waiting_or_ended) == GatherSummary(3, 1, 1, 3)


def test_those_that_a_cancelled_gather_did_not_wait_for_are_none() -> None:
    world = gathered(one=Outcome.RECEIVED)
    world.say(cancel(), START + 2)
    assert summarize(world.waiting_or_ended) == GatherSummary(3, 1, 0, 1)


# How one of them stands.


@pytest.mark.parametrize(
    ("mark", "document", "state"),
    [
        (PENDING, None, CallState.CALLING),
        (EventState(Outcome.PENDING, START), None, CallState.ACCEPTED),
        (EventState(Outcome.RECEIVED, START, 2, "e"), {"status": "ERROR"}, CallState.OK),
        (EventState(Outcome.REJECTED, START, 2, "e"), None, CallState.REJECTED),
        (EventState(Outcome.TIMED_OUT, START, 2), None, CallState.TIMEOUT),
        (EventState(Outcome.FAILED, START, 2, "e"), {"status": "ERROR"}, CallState.ERROR),
        (EventState(Outcome.FAILED, START, 2, "e"), None, CallState.ERROR),
        (
            EventState(Outcome.FAILED, START, 2, "e"),
            {"status": "connection_closed"},
            CallState.CONNECTION_CLOSED,
        ),
    ],
)
def test_a_resource_stands_as_its_mark_says(
    mark: EventState, document: Any, state: CallState
) -> None:
    assert state_of(mark, document) is state


@pytest.mark.parametrize(
    ("document", "outcome"),
    [
        ({"status": "ok"}, Outcome.RECEIVED),
        ({"status": "whatever"}, Outcome.RECEIVED),
        ({"status": 401}, Outcome.RECEIVED),
        ({}, Outcome.RECEIVED),
        ([], Outcome.RECEIVED),
        (None, Outcome.RECEIVED),
        ("REJECTED", Outcome.RECEIVED),
        ({"status": "REJECTED"}, Outcome.REJECTED),
        ({"status": "rejected"}, Outcome.REJECTED),
        ({"status": "Timeout"}, Outcome.TIMED_OUT),
        ({"status": "CONNECTION_CLOSED"}, Outcome.FAILED),
        ({"status": "ERROR"}, Outcome.FAILED),
    ],
)
def test_an_answer_may_say_itself_how_it_went(document: Any, outcome: Outcome) -> None:
    assert outcome_reported(document) is outcome


@pytest.mark.parametrize(
    "state", [CallState.REJECTED, CallState.TIMEOUT, CallState.CONNECTION_CLOSED]
)
def test_a_failure_is_kept_so_that_it_can_be_told_again(state: CallState) -> None:
    document = json.loads(failure(state, "why"))
    assert document == {"status": state, "detail": "why"}
    assert state_of_outcome(outcome_reported(document), document) is state


# The calls.


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("/answers", "https://m.example/answers?token=t-1"),
        ("/answers/{name}", "https://m.example/answers/one?token=t-1"),
    ],
)
def test_the_edge_says_where_answers_go(path: str, url: str) -> None:
    spec = GatherSpec(asks=ASKS, callback_path=path)
    assert callback_url("https://m.example", spec, "one", "t-1") == url


def test_a_registered_resource_is_called_as_it_is_registered() -> None:
    asked = GatherSpec(asks=ASKS[:2], context=msgspec.Raw(b'{"n": 1}'), trace="00-1-2-01")
    one, two = called(asked)
    context = errand(asked).context
    assert (one.address, one.expires_at, one.name) == (ADDRESS, START + 10, "one")
    assert (one.resource, two.resource) == (KNOWN["one"], KNOWN["two"])
    assert (one.callback_url, one.trace, one.ids_in_body) == (URLS[0], "00-1-2-01", False)
    assert one.call_key == (ADDRESS.key, "one")
    assert told(one, context) == {
        "resource": "one",
        "context": {"n": 1},
        "correlationId": "corr-1",
        "callbackUrl": URLS[0],
    }
    assert told(two, context) == {"resource": "two", "context": {"n": 1}, "correlationId": "corr-1"}


def test_one_that_was_removed_meanwhile_is_left_out() -> None:
    assert [call.name for call in called(GatherSpec(asks=ASKS))] == ["one", "two"]
    assert called(GatherSpec(asks=ASKS), {}) == []


def test_one_that_came_with_the_request_goes_before_a_registered_one() -> None:
    inline = Resource(url="http://elsewhere.example", method="PUT", reply=ReplyBy.DIRECT)
    (call,) = called(GatherSpec(asks=(Question(name="one", inline=inline),)))
    assert call.resource == inline


def test_a_body_of_its_own_is_sent_to_the_byte() -> None:
    ask = Question(name="one", body=msgspec.Raw(b'{"a":  1.10}'))
    (call,) = called(GatherSpec(asks=(ask,)))
    assert call_body(call, b"7") == b'{"a":  1.10}'


def test_a_body_can_also_say_where_to_answer() -> None:
    ask = Question(name="one", body=msgspec.Raw(b'{"patientId":"p","delay":5}'))
    (call,) = called(GatherSpec(asks=(ask,), ids_in_body=True))
    assert told(call) == {
        "patientId": "p",
        "delay": 5,
        "correlationId": "corr-1",
        "callbackUrl": URLS[0],
    }


def test_one_that_answers_directly_is_not_told_where_to_call_back() -> None:
    body = msgspec.Raw(b'{"patientId":"p","delay":5}')
    ask = Question(name="one", path="/direct", reply=ReplyBy.DIRECT, body=body)
    (call,) = called(GatherSpec(asks=(ask,), ids_in_body=True))
    assert (call.resource.url, call.resource.reply) == (
        "http://one.example/ask/direct",
        ReplyBy.DIRECT,
    )
    assert told(call) == {"patientId": "p", "delay": 5, "correlationId": "corr-1"}


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("http://one.example", "http://one.example/direct"),
        ("http://one.example/", "http://one.example/direct"),
        ("http://one.example/a/", "http://one.example/a/direct"),
        ("http://one.example/a?key=1/2", "http://one.example/a/direct?key=1/2"),
        ("http://one.example?key", "http://one.example/direct?key"),
    ],
)
def test_a_path_goes_behind_the_path_of_an_address(url: str, whole: str) -> None:
    ask = Question(name="one", path="/direct")
    (call,) = called(GatherSpec(asks=(ask,)), {"one": Resource(url=url)})
    assert call.resource.url == whole
    (plain,) = called(GatherSpec(asks=ASKS[:1]), {"one": Resource(url=url)})
    assert plain.resource.url == url


# As they are kept and sent.


def test_a_request_comes_back_from_the_log_as_it_was() -> None:
    inline = Resource(url="http://x.example", headers={"X-Key": "1"}, rate_per_minute=9)
    asked = GatherSpec(
        asks=(
            Question(name="one"),
            Question(name="two", inline=inline, body=msgspec.Raw(b'{"a":  1.10}')),
            Question(name="three", path="/direct", reply=ReplyBy.DIRECT),
        ),
        context=msgspec.Raw(b'{"n": 10000000000000000000000000001}'),
        mode=GatherMode.WAIT,
        on_disconnect=OnDisconnect.DETACH,
        grace=0.5,
        trace="00-1-2-01",
        callback_path="/answers/{name}",
        format="own",
        ids_in_body=True,
    )
    again = decode_gather_spec(encode_gather_spec(asked))
    assert encode_gather_spec(again) == encode_gather_spec(asked)
    assert [(ask.name, ask.inline, bytes(ask.body)) for ask in again.asks] == [
        (ask.name, ask.inline, bytes(ask.body)) for ask in asked.asks
    ]
    assert bytes(again.context) == bytes(asked.context)
    assert (again.mode, again.on_disconnect, again.grace) == (GatherMode.WAIT, "detach", 0.5)


def test_the_least_that_can_be_asked_comes_back_as_well() -> None:
    again = decode_gather_spec(encode_gather_spec(GatherSpec(asks=(Question(name="one"),))))
    assert bytes(again.asks[0].body) == b""
    assert (bytes(again.context), again.grace, again.mode) == (b"null", 2.0, GatherMode.STREAM)


def test_calls_travel_as_one_value() -> None:
    whole = errand(GatherSpec(asks=ASKS, trace="t", context=msgspec.Raw(b'{"n": 1}')))
    assert decode_call_batch(encode_call_batch(whole)) == whole


def test_what_all_are_told_travels_once() -> None:
    context = msgspec.Raw(b'"' + b"x" * 10_000 + b'"')
    asks = tuple(Question(name=f"r{n}") for n in range(100))
    known = {ask.name: KNOWN["one"] for ask in asks}
    urls = ["http://muster.example/cb"] * len(asks)
    whole = build_call_batch(GatherSpec(asks=asks, context=context), ADDRESS, START, known, urls)
    assert len(encode_call_batch(whole)) < 50_000
    assert all(len(call_body(call, whole.context)) > 10_000 for call in whole.calls)


def test_what_nobody_is_told_does_not_travel() -> None:
    asks = (
        Question(name="one", body=msgspec.Raw(b"1")),
        Question(name="two", body=msgspec.Raw(b"2")),
    )
    assert errand(GatherSpec(asks=asks, context=msgspec.Raw(b'"long"'))).context == b"null"
    assert errand(GatherSpec(asks=(*asks, ASKS[0]))).context == b"null"


@pytest.mark.parametrize(("fixed_names", "inline"), [(False, True), (True, False)])
def test_one_that_came_with_the_request_is_known_as_that(fixed_names: bool, inline: bool) -> None:
    asks = (Question(name="one", inline=KNOWN["two"]), Question(name="two"))
    calls = called(GatherSpec(asks=asks, fixed_names=fixed_names))
    assert [call.inline for call in calls] == [inline, False]


def test_what_is_printed_of_a_call_shows_no_address_and_no_credentials() -> None:
    resource = Resource(url="http://4711.example", headers={"X-Key": "4712"})
    (call,) = called(GatherSpec(asks=(Question(name="one"),)), {"one": resource})
    assert repr(call).startswith("GatherCall('one'")
    assert "471" not in repr(call)
    assert "muster.example" not in repr(call)
