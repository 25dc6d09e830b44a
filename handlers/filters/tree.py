"""The tree of a compiled CEL expression, read from the library's serialized form.

That is cel.expr.CheckedExpr in an Any, as syntax.proto and checked.proto of CEL describe it. Only
what `filter_weight` asks for is read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_ANY_VALUE, _CHECKED_EXPR = 2, 4
_CONSTANT, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _LOOP = 3, 4, 5, 6, 7, 8, 9
_STRING = 6


@dataclass(frozen=True, slots=True)
class ConstantNode:
    """A literal; `text` is its value if it is a string."""

    text: str | None = None


@dataclass(frozen=True, slots=True)
class NameNode:
    """A variable, or the name of a type."""

    name: str


@dataclass(frozen=True, slots=True)
class SelectNode:
    """A field of an operand, or a test whether the field exists."""

    operand: "Node"
    tests: bool


@dataclass(frozen=True, slots=True)
class CallNode:
    """A function or operator; its receiver, if any, is the first argument."""

    function: str
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class ListNode:
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class StructNode:
    """A literal map or message."""


@dataclass(frozen=True, slots=True)
class LoopNode:
    """The expansion of a macro: a body evaluated for each element of `over`."""

    over: "Node"
    begins: "Node"
    body: tuple["Node", ...]


Node: TypeAlias = ConstantNode | NameNode | SelectNode | CallNode | ListNode | StructNode | LoopNode


def read_tree(serialized: bytes) -> Node:
    """Parse the serialized expression.

    Raises:
        ValueError: It does not look as expected.
    """
    checked = _one(serialized, _ANY_VALUE)
    return _node(_one(checked, _CHECKED_EXPR))


def _node(raw: bytes) -> Node:
    for number, value in _fields(raw):
        if number in _KINDS and isinstance(value, bytes):
            return _KINDS[number](value)
    raise ValueError("an expression without a kind")


def _constant(raw: bytes) -> Node:
    return ConstantNode(next((_text(value) for n, value in _fields(raw) if n == _STRING), None))


def _name(raw: bytes) -> Node:
    return NameNode(_text(_one(raw, 1)))


def _select(raw: bytes) -> Node:
    tests = any(number == 3 and value for number, value in _fields(raw))
    return SelectNode(_node(_one(raw, 1)), tests)


def _call(raw: bytes) -> Node:
    return CallNode(
        _text(_one(raw, 2)), tuple(_node(part) for part in (*_all(raw, 1), *_all(raw, 3)))
    )


def _list(raw: bytes) -> Node:
    return ListNode(tuple(_node(part) for part in _all(raw, 1)))


def _struct(_raw: bytes) -> Node:
    return StructNode()


def _loop(raw: bytes) -> Node:
    over, begins, *body = (_node(_one(raw, number)) for number in (2, 4, 5, 6, 7))
    return LoopNode(over, begins, tuple(body))


_KINDS = {
    _CONSTANT: _constant,
    _IDENT: _name,
    _SELECT: _select,
    _CALL: _call,
    _LIST: _list,
    _STRUCT: _struct,
    _LOOP: _loop,
}


def _one(raw: bytes, wanted: int) -> bytes:
    for value in _all(raw, wanted):
        return value
    raise ValueError(f"field {wanted} is missing")


def _all(raw: bytes, wanted: int) -> Iterator[bytes]:
    return (v for n, v in _fields(raw) if n == wanted and isinstance(v, bytes))


def _text(value: bytes | int) -> str:
    if isinstance(value, int):
        raise ValueError("a number in the place of a text")  # noqa: TRY004  one kind for all
    return value.decode()


def _fields(raw: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Iterate over the fields of a message in the wire format of protobuf."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(raw, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _varint(raw, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if at + length > len(raw):
            raise ValueError("it ends too soon")
        yield number, raw[at : at + length]
        at += length


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(raw):
            raise ValueError("it ends too soon")
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
