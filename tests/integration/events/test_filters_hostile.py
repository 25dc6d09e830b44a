"""The worst that an expression and an event can do together stays a matter of milliseconds."""

import gc
import random
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from core.events.event import Event
from handlers.filters.cel import MAX_EVALUATION_NS, Filter, compile_filter

# Twice what was reckoned with: other processes share these cores.
MOST_SECONDS = 2 * MAX_EVALUATION_NS / 1e9


def repeated(piece: str, size: int) -> str:
    """A piece with commas between, up to this size."""
    return ",".join([piece] * ((size + 1) // (len(piece) + 1)))


def keys(size: int) -> str:
    """As many keys as there is room for."""
    pairs = (f'"{number:05x}":1' for number in range((size + 1) // 10))
    return ",".join(pairs)


def letters(size: int) -> str:
    return "".join(random.Random(7).choices("ab", k=size))


PAYLOADS: dict[str, Callable[[int], str]] = {
    "digits": lambda size: f"[{repeated('1', size - 2)}]",
    "empty lists": lambda size: f"[{repeated('[]', size - 2)}]",
    "empty maps": lambda size: f"[{repeated('{}', size - 2)}]",
    "empty texts": lambda size: f"[{repeated(EMPTY, size - 2)}]",
    "small maps": lambda size: f"[{repeated(SMALL, size - 2)}]",
    "keys": lambda size: f"{{{keys(size - 2)}}}",
    "one letter": lambda size: f'"{"a" * (size - 2)}"',
    "two letters": lambda size: f'"{letters(size - 2)}"',
    "half of each": lambda size: HALVES % ("a" * (size // 2), repeated("1", size // 2 - 20)),
    "ten thousand": lambda size: f"[{repeated('1', min(size - 2, 19_997))}]",
    "ten thousand maps": lambda size: f"[{repeated(SMALL, min(size - 2, 79_991))}]",
}
EMPTY, SMALL, HALVES = '""', '{"a":1}', '{"s":"%s","a":[%s]}'

EXPRESSIONS = [
    "data == 1",
    "data == data",
    "data != data && data == data",
    "[data, data] == [data, data]",
    "data in data",
    "data in [data, data, data]",
    "data < data || data > data",
    "size(data) > 1 && size(data) < 9",
    "data.contains('" + "a" * 199 + "b')",
    "data.startsWith(data) && data.endsWith(data) && data < data",
    "data.matches('a" + "." * 58 + "c')",
    "data.matches('[ab]*a" + "[ab]" * 15 + "c')",
    "data.matches('(a|b|ab|ba|aab|bba)*c$')",
    "data.matches('(((a*)*)*)*c')",
    "data.matches('(a|a?)+(a|a?)+(a|a?)+(a|a?)+c')",
    "data.matches('" + "a?" * 40 + "c')",
    "data + data + data + data == ''",
    "(data + data + data + data).contains('" + "a" * 100 + "b')",
    "(data + data) + (data + data) + (data + data) == (data + data) + (data + data)",
    "string(data) == '' || double(data) == 1.0 || duration(data) == duration('1s')",
    "data.all(x, x != 'y')",
    "data.exists(x, x == 'y' || x == 'z' || x == 'u' || x == 'v' || x == 'w' || x == 't')",
    "data.exists(x, x in ['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7', 'a8', 'a9'])",
    "data.exists(x, size(string(x) + string(x) + string(x)) > 99999)",
    " && ".join(["data.exists_one(x, x != 1)"] * 4),
    "data.a.all(x, x == 1) && data.s.contains('" + "a" * 100 + "b')",
    " && ".join(["data != 1"] * 150),
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda text: text[:40])
def test_no_event_keeps_a_filter_busy(expression: str) -> None:
    compiled = compile_filter(expression)
    assert isinstance(compiled, Filter), compiled
    for name, make in PAYLOADS.items():
        payload = make(compiled.largest)
        took = seconds(compiled, payload)
        if took >= MOST_SECONDS:  # once may be bad luck
            took = min(took, seconds(compiled, payload))
        assert took < MOST_SECONDS, f"{name}: {took * 1000:.0f} ms"


def seconds(compiled: Filter, payload: str) -> float:
    """The processor's time, with all that is done once for an event."""
    one = event(payload.encode())
    assert len(one.data or b"") <= compiled.largest
    gc.disable()  # which has much more to look at here than in a process that serves
    try:
        began = time.thread_time()
        compiled.evaluate(one)
        return time.thread_time() - began
    finally:
        gc.enable()


def event(data: bytes) -> Event:
    msgspec.json.decode(data)  # it is what it is meant to be
    fields: dict[str, Any] = {"type": "t", "source": "s", "content_type": "application/json"}
    return Event(tenant=1, event_id="e", time=0.0, data=data, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1_999 + "1" + ")" * 1_999,
        "[" * 2_000 + "]" * 2_000,
        "!" * 3_990 + "true",
        "-" * 3_990 + "1",
        "1" + "+1" * 1_999,
        "data" + ".a" * 1_990,
        "data" + "[0]" * 1_330,
        "true" + "?true:true" * 399,
        "true" + "&&true" * 600,
        "data == [" + "1," * 1_900 + "1]",
        "data == '" + "a" * 3_980 + "'",
        "data.all(a," * 300 + "true" + ")" * 300,
        "data.matches('" + "(a|" * 900 + "b" + ")" * 900 + "')",
        "a" * 4_000,
        "'" * 4_000,
        "\x00" * 4_000,
        "\U0001f600" * 4_000,
    ],
    ids=lambda text: text[:12],
)
def test_no_text_keeps_the_compiler_busy(text: str) -> None:
    began = time.thread_time()
    compile_filter(text)
    assert time.thread_time() - began < 0.5
