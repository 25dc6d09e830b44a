"""Expressions that can be evaluated, and what they cost alone and together."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from core.expressions.costs import COMPARISON_COST
from core.expressions.semantics import Comparison

FieldOf = Callable[[str], Any]
"""Returns a field of the record, or None."""


class Evaluate(Protocol):
    def __call__(
        self, field_of: FieldOf, scope: Mapping[str, Any], comparison: Comparison | None = None, /
    ) -> Any:
        """Return the value for the fields of a record, and the values of the other names.

        Expressions that are given the same comparison may compare together what one may alone.

        Raises:
            EvaluationError: There is none.
        """


class CompiledExpression(NamedTuple):
    evaluate: Evaluate
    names: frozenset[str]
    """The names beside fields of the record that are read."""
    fields: frozenset[str]
    """The fields of the record that are read."""
    cost: float
    """At worst, without its comparisons."""
    compares: bool


def total_cost(expressions: Iterable[CompiledExpression]) -> float:
    """Return the worst case of expressions that are evaluated with one comparison."""
    every = list(expressions)
    compares = any(one.compares for one in every)
    return sum(one.cost for one in every) + (COMPARISON_COST if compares else 0.0)
