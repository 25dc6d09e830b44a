"""Estimates the worst-case cost of a CEL expression from its tree, before it runs.

An evaluation cannot be interrupted, so an expression that might take long is refused beforehand.
The numbers are nanoseconds per byte of the event, measured in the worst case and rounded up
(tests/integration/events/test_filters_hostile.py checks them).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError

from handlers.filters.expression_pb2 import CheckedExpr, Expr

MAX_LOOPS = 4
MAX_ITERATIONS = 10_000
"""The library's own budget for one evaluation."""
MAX_NEEDLE_CHARS = 200
MAX_PATTERN_CHARS = 100

# An event is converted for CEL once, whatever the filters read of it.
_READING = 60.0
_EQUALITY = 20.0
_SEARCH = 6.0
_NEEDLE = 0.05  # for each character of the needle
_PATTERN = 14.0  # for each character of a pattern
_CONVERSION = 12.0
_ADDITION = 15.0
_SCAN = 1.0
_ITERATION, _STEP = 350.0, 60.0  # per element and per node of the body, not per byte

_EVENT = frozenset({"event", "data"})


class FilterTooCostlyError(Exception):
    """An expression that may not run; the message says why."""


@dataclass(frozen=True, slots=True)
class NodeCost:
    """Cost of a part: the size of its value, in events, and its ns per byte of the event."""

    size: float = 0.0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class FilterCost:
    """Cost of a whole expression, in ns per byte of the event."""

    cost: float
    fixed: float
    """Nanoseconds for what does not depend on the size of the event."""
    grows: bool
    """Whether it puts things together, and so makes larger ones."""

    def largest(self, budget: float) -> int:
        """Return the size of the largest event that takes at most `budget` nanoseconds."""
        return max(0, int((budget - self.fixed) / self.cost))


def parse_expression(serialized: bytes) -> Expr:
    """Return the tree of a compiled expression, or raise ValueError if it is no such form."""
    try:
        packed = AnyMessage.FromString(serialized)
        checked: CheckedExpr = CheckedExpr.FromString(packed.value)
    except DecodeError as error:
        raise ValueError(str(error)) from None
    return checked.expr


def estimate_cost(tree: Expr) -> FilterCost:
    """Estimate the cost of an expression; raise an error if it is unknown or unbounded."""
    scale = _Scale()
    load = scale.weigh(tree)
    return FilterCost(
        cost=_READING + load.cost,
        fixed=MAX_ITERATIONS * (_ITERATION + _STEP * scale.steps) if scale.loops else 0.0,
        grows=scale.grows,
    )


class _Scale:
    def __init__(self) -> None:
        self.loops = 0
        self.steps = 0
        """Of the longest body: iterations of all loops together have one budget."""
        self.grows = False
        self._in_body = False
        self._body_steps = 0

    def weigh(self, node: Expr) -> NodeCost:
        self._body_steps += self._in_body
        match node.WhichOneof("expr_kind"):
            case "const_expr":
                return NodeCost()
            case "ident_expr":
                return self._name(node.ident_expr.name)
            case "select_expr":
                load = self.weigh(node.select_expr.operand)
                return NodeCost(0.0 if node.select_expr.test_only else load.size, load.cost)
            case "list_expr":
                return _sum([self.weigh(item) for item in node.list_expr.elements])
            case "call_expr":
                return self._call(node.call_expr)
            case "comprehension_expr":
                return self._loop(node.comprehension_expr)
            case "struct_expr":
                raise FilterTooCostlyError("maps and messages cannot be written in a filter")
            case _:
                raise ValueError("an expression of an unknown kind")

    def _name(self, name: str) -> NodeCost:
        if name in _EVENT and self._in_body:
            raise FilterTooCostlyError("all, exists and exists_one may look at the element only")
        # Whatever else has a name is an element, of which all together are the event, or small.
        return NodeCost(size=1.0)

    def _loop(self, loop: Expr.Comprehension) -> NodeCost:
        if self._in_body:
            raise FilterTooCostlyError("all, exists and exists_one cannot stand within each other")
        self.loops += 1
        if self.loops > MAX_LOOPS:
            raise FilterTooCostlyError(f"at most {MAX_LOOPS} of all, exists and exists_one")
        if loop.accu_init.HasField("list_expr"):
            raise FilterTooCostlyError(
                "filter and map cannot be used: all, exists and exists_one can"
            )
        if not _is_path(loop.iter_range):
            raise FilterTooCostlyError(
                "all, exists and exists_one go over a part of data or event only"
            )
        over = self.weigh(loop.iter_range)
        self._in_body, self._body_steps = True, 0
        parts = (loop.loop_condition, loop.loop_step, loop.result)
        body = _sum([self.weigh(part) for part in parts])
        self._in_body, self.steps = False, max(self.steps, self._body_steps)
        return NodeCost(cost=over.cost + body.cost)

    def _call(self, call: Expr.Call) -> NodeCost:
        loads = [self.weigh(argument) for argument in _arguments(call)] or [NodeCost()]
        rule = _RULES.get(call.function)
        if rule is None:
            raise FilterTooCostlyError(f"{call.function} cannot be used in a filter")
        if call.function == "matches" and self._in_body:
            raise FilterTooCostlyError("matches cannot stand in all, exists or exists_one")
        self.grows = self.grows or call.function == "_+_"
        own = rule(call, [load.size for load in loads])
        return NodeCost(own.size, own.cost + sum(load.cost for load in loads))


def _arguments(call: Expr.Call) -> list[Expr]:
    """Return the arguments of a call, after its receiver, if there is one."""
    return [call.target, *call.args] if call.HasField("target") else list(call.args)


def _literal(call: Expr.Call, most: int) -> str:
    wanted = _arguments(call)[-1].const_expr
    if not wanted.HasField("string_value") or len(wanted.string_value) > most:
        raise FilterTooCostlyError(
            f"what {call.function} looks for must be a text of up to {most} characters, written out"
        )
    return wanted.string_value


def _searches(call: Expr.Call, sizes: list[float]) -> NodeCost:
    needle = _literal(call, MAX_NEEDLE_CHARS)
    return NodeCost(cost=(_SEARCH + _NEEDLE * len(needle)) * sizes[0])


def _matches(call: Expr.Call, sizes: list[float]) -> NodeCost:
    pattern = _literal(call, MAX_PATTERN_CHARS)
    if "{" in pattern:
        raise FilterTooCostlyError("the pattern of matches cannot count with { }")
    return NodeCost(cost=_PATTERN * max(1, len(pattern)) * sizes[0])


_LOGIC = ("_&&_", "_||_", "!_", "@not_strictly_false")
_NUMBERS = ("-_", "_-_", "_*_", "_/_", "_%_")
_TIMES = (
    *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
)
_ORDER = ("_<_", "_<=_", "_>_", "_>=_", "size", "startsWith", "endsWith")
_KINDS = ("int", "uint", "double", "bool", "timestamp", "duration", "type")
# What is not here cannot be used: nobody has measured it.
_RULES: Mapping[str, Callable[[Expr.Call, list[float]], NodeCost]] = {
    **dict.fromkeys((*_LOGIC, *_NUMBERS, *_TIMES), lambda _, sizes: NodeCost()),
    **dict.fromkeys(_ORDER, lambda _, sizes: NodeCost(cost=_SCAN * max(sizes))),
    **dict.fromkeys(_KINDS, lambda _, sizes: NodeCost(cost=_CONVERSION * sum(sizes))),
    **dict.fromkeys(
        ("string", "dyn"), lambda _, sizes: NodeCost(sum(sizes), _CONVERSION * sum(sizes))
    ),
    **dict.fromkeys(("_==_", "_!=_"), lambda _, sizes: NodeCost(cost=_EQUALITY * min(sizes))),
    "@in": lambda _, sizes: NodeCost(cost=_EQUALITY * sizes[-1]),
    "_[_]": lambda _, sizes: NodeCost(sizes[0]),
    "_?_:_": lambda _, sizes: NodeCost(max(sizes)),
    "_+_": lambda _, sizes: NodeCost(sum(sizes), _ADDITION * sum(sizes)),
    "contains": _searches,
    "matches": _matches,
}


def _is_path(node: Expr) -> bool:
    """Return True if the node is `data`, `event` or a part of them: no larger than they are."""
    match node.WhichOneof("expr_kind"):
        case "ident_expr":
            return node.ident_expr.name in _EVENT
        case "select_expr":
            return not node.select_expr.test_only and _is_path(node.select_expr.operand)
        case "call_expr" if node.call_expr.function == "_[_]":
            operand, key = _arguments(node.call_expr)
            return key.HasField("const_expr") and _is_path(operand)
        case _:
            return False


def _sum(loads: list[NodeCost]) -> NodeCost:
    return NodeCost(sum(load.size for load in loads), sum(load.cost for load in loads))
