"""The tree of a compiled CEL expression, read from the library's serialized form.

It is cel.expr.CheckedExpr in an Any, as syntax.proto and checked.proto of CEL describe it. Only the
parts are read that `handlers/filters/cost.py` needs.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

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
        ValueError: The form is not the expected one.
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


def _select(raw: bytes) -> Node:
    tests = any(number == 3 and value for number, value in _fields(raw))
    return SelectNode(_node(_one(raw, 1)), tests)


def _call(raw: bytes) -> Node:
    return CallNode(
        _text(_one(raw, 2)), tuple(_node(part) for part in (*_all(raw, 1), *_all(raw, 3)))
    )


def _loop(raw: bytes) -> Node:
    over, begins, *body = (_node(_one(raw, number)) for number in (2, 4, 5, 6, 7))
    return LoopNode(over, begins, tuple(body))


_KINDS: Mapping[int, Callable[[bytes], Node]] = {
    _CONSTANT: _constant,
    _IDENT: lambda raw: NameNode(_text(_one(raw, 1))),
    _SELECT: _select,
    _CALL: _call,
    _LIST: lambda raw: ListNode(tuple(map(_node, _all(raw, 1)))),
    _STRUCT: lambda _: StructNode(),
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


def _fields(raw: bytes) -> list[tuple[int, bytes | int]]:
    """Return number and value of each field of a message: to Empty, every field is unknown."""
    message = Empty()
    try:
        message.ParseFromString(raw)
    except DecodeError as error:
        raise ValueError(str(error)) from None
    return [(field.field_number, field.data) for field in UnknownFieldSet(message)]
