"""Filters: what passes, what does not, and what is refused when it is saved."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from grpc_tools import protoc

from core.events.event import Event
from handlers.filters import cel
from handlers.filters.cel import (
    Filter,
    FilterResult,
    InvalidFilter,
    compile_filter,
    passes_filter,
)
from handlers.filters.cost import estimate_cost, parse_expression
from tests.support.subscriptions import CREATED, subscription


def allows(compiled: Filter, one: Event) -> bool:
    return compiled.evaluate(one) is FilterResult.PASSES


def event(data: Any = None, **fields: Any) -> Event:
    usual: dict[str, Any] = {
        "tenant": 1,
        "event_id": "0HZXEQ5Y8JY5Z",
        "type": CREATED,
        "source": "shop",
        "time": 1_700_000_000.0,
        "data": None if data is None else msgspec.json.encode(data),
        "content_type": "application/json",
    }
    return Event(**usual | fields)


def usable(text: str) -> Filter:
    compiled = compile_filter(text)
    assert isinstance(compiled, Filter), compiled
    return compiled


def judge(text: str, data: Any = None, **fields: Any) -> FilterResult:
    return usable(text).evaluate(event(data, **fields))


ORDER = {
    "amount": 99.5,
    "items": [{"sku": "a", "count": 1}, {"sku": "b", "count": 3}],
    "customer": {"country": "DE", "tags": ["new", "vip"]},
    "note": "deliver to the café",
    "paid": True,
    "coupon": None,
}


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "data.paid",
        "data.amount > 50",
        "data.amount >= 99.5 && data.amount < 100",
        "data.customer.country in ['DE', 'AT']",
        "'vip' in data.customer.tags",
        "data.customer['country'] == 'DE'",
        "data.items.exists(i, i.sku == 'b' && i.count > 2)",
        "data.items.all(i, i.count > 0)",
        "data.items.exists_one(i, i.count > 2)",
        "size(data.items) == 2",
        "data.items[1].sku == 'b'",
        "data.note.contains('café')",
        "data.note.startsWith('deliver') && !data.note.endsWith('x')",
        "data.note.matches('^deliver .* caf.$')",
        "data.coupon == null",
        "!has(data.discount)",
        "has(data.discount) ? data.discount > 1 : true",
        "data.amount + 0.5 == 100.0",
        "event.type == 'shop:orders:order:created'",
        "event.source == 'shop' && event.subject == null",
        "timestamp(event.time) < timestamp('2030-01-01T00:00:00Z')",
        "timestamp(event.time).getFullYear() == 2023",
        "event.contextData.region == 'eu'",
        "event.extensions.traceparent != ''",
        "event.typeVersion == '1.2' && event.messageGroup == 'g'",
        "string(data.items[0].count) == '1'",
        "type(data.amount) == double",
    ],
)
def test_what_is_true_passes(text: str) -> None:
    one = event(
        ORDER,
        context=(("region", "eu"),),
        extensions={"traceparent": "00"},
        type_version="1.2",
        message_group="g",
    )
    assert usable(text).evaluate(one) is FilterResult.PASSES


@pytest.mark.parametrize(
    ("text", "judgement"),
    [
        ("false", FilterResult.DIFFERS),
        ("data.amount > 100", FilterResult.DIFFERS),
        # The library hands these out as texts, which are true to a careless reader.
        ("data.missing", FilterResult.FAILED),
        ("data.missing == 1", FilterResult.FAILED),
        ("data.amount.cents > 1", FilterResult.FAILED),
        ("data.items[7].sku == 'a'", FilterResult.FAILED),
        ("data.note > 1", FilterResult.FAILED),
        ("1 / int(data.coupon == null ? 0 : 1) == 1", FilterResult.FAILED),
        # Only true is true.
        ("data.note", FilterResult.FAILED),
        ("data.amount", FilterResult.FAILED),
        ("data.items", FilterResult.FAILED),
        ("data.coupon", FilterResult.FAILED),
        ("data", FilterResult.FAILED),
    ],
)
def test_anything_but_true_is_a_mismatch(text: str, judgement: FilterResult) -> None:
    compiled = usable(text)
    assert compiled.evaluate(event(ORDER)) is judgement
    assert not allows(compiled, event(ORDER))


def test_an_error_that_does_not_matter_is_none() -> None:
    assert judge("data.missing == 1 || data.paid", ORDER) is FilterResult.PASSES
    assert judge("has(data.missing) && data.missing == 1", ORDER) is FilterResult.DIFFERS


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (None, "application/json"),
        (b"<xml/>", "application/xml"),
        (b"not json", "application/json"),
        (b"\xff", "application/json"),
        (b"[" * 5_000, "application/json"),
        (b'{"a": 1}', None),
    ],
)
def test_what_is_not_json_is_null(data: bytes | None, content_type: str | None) -> None:
    one = event(content_type=content_type)
    one = msgspec.structs.replace(one, data=data)
    assert allows(usable("data == null"), one)
    assert not allows(usable("data.a == 1"), one)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": 123456789012345678901234567890}',
        b'{"a": 1e400}',
        b'{"a": "\\ud800"}',
        b'{"": 1, "a b": 2}',
        b"[" * 900 + b"]" * 900,
    ],
)
def test_odd_payloads_make_no_trouble(data: bytes) -> None:
    one = msgspec.structs.replace(event(), data=data)
    assert not allows(usable("data.a == 'x'"), one)
    assert not allows(usable("data == [1]"), one)


def test_large_events_pass_no_filter() -> None:
    compiled = usable("true")
    assert compiled.largest == cel.MAX_EVENT_BYTES
    fits = event("x" * (cel.MAX_EVENT_BYTES - 2))
    assert compiled.evaluate(fits) is FilterResult.PASSES
    large = event("x" * (cel.MAX_EVENT_BYTES - 1))
    assert compiled.evaluate(large) is FilterResult.TOO_LARGE
    wide = event("x" * (cel.MAX_EVENT_BYTES - 10), context=(("a" * 10, "b" * 10),))
    assert compiled.evaluate(wide) is FilterResult.TOO_LARGE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "1 to 4000 characters"),
        ("true ||" + " " * 4_000, "1 to 4000 characters"),
        ("data.a ==", "line 1, column"),
        ("nope == 1", "line 1, column 1: undeclared reference to 'nope'"),
        ("1 > 1.5", "line 1, column 3: found no matching overload"),
        ("'text'", "whose result is true or false, not of type STRING"),
        ("1 + 1", "whose result is true or false, not of type INT"),
        ("(" * 40 + "true" + ")" * 40, "recursion"),
        ("data.a" + " + data.a" * 60 + " == 1", "recursion"),
        # Loops
        ("data.all(a, data.exists(b, a == b))", "within each other"),
        ("data.all(a, a.all(b, b.all(c, true)))", "within each other"),
        ("data.all(a, a > 1) && " * 4 + "data.all(a, a > 1)", "at most 4"),
        ("data.exists(i, i.a == data.b)", "the element only"),
        ("data.exists(i, i.a == event.subject)", "the element only"),
        ("size(data.filter(i, i > 1)) > 1", "filter and map cannot be used"),
        ("data.map(i, i + 1) == [1]", "filter and map cannot be used"),
        ("[data, data].exists(i, i == 1)", "a part of data or event only"),
        ("(data + data).exists(i, i == 1)", "a part of data or event only"),
        ("data.exists(i, i.matches('a'))", "matches cannot stand in"),
        ("data.all(i, " + " && ".join(["i != 1"] * 150) + ")", "less work"),
        # Looking for texts
        ("data.a.contains(data.b)", "written out"),
        ("data.a.contains('" + "x" * 201 + "')", "up to 200 characters"),
        ("data.a.matches(data.b)", "written out"),
        ("data.a.matches('" + "x" * 101 + "')", "up to 100 characters"),
        ("data.a.matches('(a{0,50}){0,20}b')", "cannot count"),
        (" || ".join(["data.a.matches('" + "a" * 99 + "')"] * 3), "less work"),
        # What nobody has measured
        ("bytes(data.a) == b'x'", "bytes cannot be used"),
        ("data == {'a': 1}", "maps and messages"),
        ("data == google.protobuf.Struct{}", "maps and messages"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_reason(text: str, reason: str) -> None:
    compiled = compile_filter(text)
    assert isinstance(compiled, InvalidFilter), compiled
    assert reason in compiled.reason
    assert "\n" not in compiled.reason


def test_a_pattern_lowers_the_size_of_events_it_is_held_against() -> None:
    compiled = usable("data.note.matches('" + "." * 60 + "')")
    assert cel.MIN_EVENT_BYTES < compiled.largest < cel.MAX_EVENT_BYTES


def test_expressions_are_compiled_once() -> None:
    assert compile_filter("data.once == 1") is compile_filter("data.once == 1")


@pytest.mark.parametrize(
    "raw", [b"", b"\x12\x02\x22", b"\x12\x01\x07", b"\xff", b"\x12\x03\x22\x01\x18"]
)
def test_a_form_that_is_not_known_is_not_guessed_at(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        estimate_cost(parse_expression(raw))


def test_the_generated_classes_are_those_of_the_proto_file(tmp_path: Path) -> None:
    root, proto = Path(__file__).parents[4], "handlers/filters/expression.proto"
    assert protoc.main(["protoc", f"-I{root}", f"--python_out={tmp_path}", proto]) == 0
    stored, made = (
        (folder / proto.replace(".proto", "_pb2.py")).read_text(encoding="utf-8").splitlines()
        for folder in (root, tmp_path)
    )
    assert [line for line in made if line.startswith("DESCRIPTOR =")] == [
        line for line in stored if line.startswith("DESCRIPTOR =")
    ]


# Subscriptions


def test_an_event_passes_a_subscription_without_a_filter_or_with_one_that_says_true() -> None:
    order = event(ORDER, type_version="1.2")
    assert passes_filter(subscription(1), order)
    assert passes_filter(subscription(1, filter="data.paid"), order)
    assert not passes_filter(subscription(1, filter="!data.paid"), order)


def test_what_filters_say_is_counted() -> None:
    before = dict(cel.filter_counters.counts)
    for text in ("data.paid", "!data.paid", "data.missing", "not CEL at all"):
        passes_filter(subscription(1, filter=text), event(ORDER))
    passes_filter(subscription(1, filter="true"), event("x" * 300_000))
    after = {one: count - before[one] for one, count in cel.filter_counters.counts.items()}
    assert after == {
        FilterResult.PASSES: 1,
        FilterResult.DIFFERS: 1,
        FilterResult.FAILED: 2,
        FilterResult.TOO_LARGE: 1,
    }


def test_who_missed_an_event_that_was_too_large_is_told_once() -> None:
    cel.filter_counters.oversized()
    large = event("x" * 300_000)
    for tenant in (1, 2, 2):
        passes_filter(subscription(tenant, filter="true"), large)
    passes_filter(subscription(3, filter="true"), event(ORDER))
    assert cel.filter_counters.oversized() == {
        (1, "sub_orders"): CREATED,
        (2, "sub_orders"): CREATED,
    }
    assert cel.filter_counters.oversized() == {}


def test_one_event_after_the_other_is_looked_at() -> None:
    compiled = usable("data.n == 1")
    one, two = event({"n": 1}), event({"n": 2})
    assert [allows(compiled, each) for each in (one, two, one, one)] == [True, False, True, True]
