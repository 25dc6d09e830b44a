"""Finds the filters that a record may pass, without evaluating all of them.

Most filters begin with comparisons such as `status == 'open'`. Filters are kept by one of them, the
one that the fewest share, so that a record leads to those whose comparison holds.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from core.expressions.compiler import NAMES, RECORD
from core.expressions.expression import FieldOf
from core.expressions.tree import Call, Constant, Name, Node, Select

T = TypeVar("T")


class Equality(NamedTuple):
    """A field that has to have a value."""

    field: str
    value: tuple[bool, Any]
    """With whether it is a boolean: true equals 1 in Python, but not here."""


def leading_equalities(tree: Node) -> list[Equality]:
    """Return comparisons with literals that an expression cannot be true without.

    Only those before anything that may fail: a filter that fails must not be passed over.
    """
    found: list[Equality] = []
    for conjunct in _conjuncts(tree):
        match conjunct:
            case Call("_==_", (left, Constant(value))) if value is not None:
                field = _field(left)
            case Call("_!=_", (left, Constant())) if _field(left) is not None:
                continue
            case _:
                break
        if field is None:
            break
        found.append(Equality(field, _key(value)))
    return found


class FilterIndex(Generic[T]):
    """Items with filters, in an order that is kept."""

    def __init__(self, items: Iterable[tuple[T, Node | None]]) -> None:
        """Take items with the trees of their filters; those without a filter always qualify."""
        pairs = [(item, leading_equalities(tree) if tree else []) for item, tree in items]
        shared = Counter(equality for _, equalities in pairs for equality in equalities)
        self._items = [item for item, _ in pairs]
        self._always: list[int] = []
        self._by_field: dict[str, dict[tuple[bool, Any], list[int]]] = {}
        for place, (_, equalities) in enumerate(pairs):
            if equalities:
                field, value = min(equalities, key=shared.__getitem__)
                self._by_field.setdefault(field, {}).setdefault(value, []).append(place)
            else:
                self._always.append(place)

    def candidates(self, field_of: FieldOf) -> list[T]:
        """Return the items whose filter may be true of a record, in their order."""
        places = list(self._always)
        for field, by_value in self._by_field.items():
            value = field_of(field)
            if value.__class__ in _HASHED:
                places += by_value.get(_key(value), ())
        if len(places) > 1:
            places.sort()
        return [self._items[place] for place in places]


_HASHED = frozenset({str, int, float, bool})


def _key(value: Any) -> tuple[bool, Any]:
    return value is True or value is False, value


def _conjuncts(tree: Node) -> Iterator[Node]:
    match tree:
        case Call("_&&_" | "AND", arguments, is_method=False):
            for argument in arguments:
                yield from _conjuncts(argument)
        case _:
            yield tree


def _field(node: Node) -> str | None:
    match node:
        case Name(name) if name not in NAMES:
            return name
        case Select(Name(name), field, tests=False) if name == RECORD:
            return field
        case _:
            return None
