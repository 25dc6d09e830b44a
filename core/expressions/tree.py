"""The tree of an expression, as the parser hands it over."""

from typing import NamedTuple, TypeAlias


class Constant(NamedTuple):
    value: str | int | float | bool | None
    at: int


class Name(NamedTuple):
    name: str
    at: int


class Select(NamedTuple):
    """A field of a value; with `tests`, whether the value has that field."""

    operand: "Node"
    field: str
    tests: bool
    at: int


class Call(NamedTuple):
    """A function or an operator; what a method is called on is the first argument."""

    function: str
    arguments: tuple["Node", ...]
    at: int
    is_method: bool = False


class ListLiteral(NamedTuple):
    items: tuple["Node", ...]
    at: int


class Quantifier(NamedTuple):
    """`all`, `exists` or `exists_one`: a condition on each item of a list."""

    kind: str
    over: "Node"
    variable: str
    condition: "Node"
    at: int


Node: TypeAlias = Constant | Name | Select | Call | ListLiteral | Quantifier
"""`at` is the position in the expression's text, from 0."""


class InvalidExpressionError(ValueError):
    """The text is no expression that can be evaluated; `at` is the position, from 0."""

    def __init__(self, problem: str, at: int | None = None) -> None:
        super().__init__(problem, at)
        self.problem, self.at = problem, at

    def __str__(self) -> str:
        return self.problem if self.at is None else f"character {self.at + 1}: {self.problem}"
