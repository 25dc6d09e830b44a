"""How much work an expression can make, told from its tree before it ever runs.

Nothing can stop an evaluation once it has begun, so what might take long is refused beforehand.
The numbers are nanoseconds on a byte of the event, measured where an event is at its worst, and
rounded up (tests/unit/handlers/test_filters_hostile.py holds against them).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from handlers.filters.tree import Call, Constant, Listed, Loop, Made, Name, Node, Select

MOST_LOOPS = 4
MOST_ITERATIONS = 10_000
"""The library's own budget for one evaluation."""
LONGEST_NEEDLE = 200
LONGEST_PATTERN = 100

# An event is made readable to CEL once, whatever is asked of it.
_READING = 60.0
_EQUALITY = 20.0
_SEARCH = 6.0
_NEEDLE = 0.05  # for each character that is looked for
_PATTERN = 14.0  # for each character of a pattern
_CONVERSION = 12.0
_ADDITION = 15.0
_SCAN = 1.0
_ITERATION, _STEP = 350.0, 60.0  # not on a byte, but on an element, and on a node of its body

_EVENT = frozenset({"event", "data"})


class TooMuchError(Exception):
    """An expression that may not run, and why."""


@dataclass(frozen=True, slots=True)
class Load:
    """Of a part: how large its value can be, in events, and what it costs, in ns on a byte."""

    size: float = 0.0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Weight:
    """Of a whole expression."""

    cost: float
    fixed: float
    """Nanoseconds for what does not depend on the size of the event."""
    grows: bool
    """Whether it puts things together, and so makes larger ones."""

    def largest(self, budget: float) -> int:
        """The size of the largest event that takes no more nanoseconds than these."""
        return max(0, int((budget - self.fixed) / self.cost))


def weigh(tree: Node) -> Weight:
    """What the expression can cost.

    Raises:
        TooMuchError: Nobody can say, or it is beyond all bounds.
    """
    scale = _Scale()
    load = scale.weigh(tree)
    return Weight(
        cost=_READING + load.cost,
        fixed=MOST_ITERATIONS * (_ITERATION + _STEP * scale.steps) if scale.loops else 0.0,
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

    def weigh(self, node: Node) -> Load:
        self._body_steps += self._in_body
        match node:
            case Constant():
                return Load()
            case Name(name):
                return self._name(name)
            case Select(operand, tests):
                load = self.weigh(operand)
                return Load(0.0 if tests else load.size, load.cost)
            case Listed(items):
                return _sum([self.weigh(item) for item in items])
            case Call():
                return self._call(node)
            case Loop():
                return self._loop(node)
            case Made():
                raise TooMuchError("maps and messages cannot be written in a filter")

    def _name(self, name: str) -> Load:
        if name in _EVENT and self._in_body:
            raise TooMuchError("all, exists and exists_one may look at the element only")
        # Whatever else has a name is an element, of which all together are the event, or small.
        return Load(size=1.0)

    def _loop(self, loop: Loop) -> Load:
        if self._in_body:
            raise TooMuchError("all, exists and exists_one cannot stand within each other")
        self.loops += 1
        if self.loops > MOST_LOOPS:
            raise TooMuchError(f"at most {MOST_LOOPS} of all, exists and exists_one")
        if isinstance(loop.begins, Listed):
            raise TooMuchError("filter and map cannot be used: all, exists and exists_one can")
        if not _is_path(loop.over):
            raise TooMuchError("all, exists and exists_one go over a part of data or event only")
        over = self.weigh(loop.over)
        self._in_body, self._body_steps = True, 0
        body = _sum([self.weigh(part) for part in loop.body])
        self._in_body, self.steps = False, max(self.steps, self._body_steps)
        return Load(cost=over.cost + body.cost)

    def _call(self, call: Call) -> Load:
        loads = [self.weigh(argument) for argument in call.arguments] or [Load()]
        rule = _RULES.get(call.function)
        if rule is None:
            raise TooMuchError(f"{call.function} cannot be used in a filter")
        if call.function == "matches" and self._in_body:
            raise TooMuchError("matches cannot stand in all, exists or exists_one")
        self.grows = self.grows or call.function == "_+_"
        own = rule(call, [load.size for load in loads])
        return Load(own.size, own.cost + sum(load.cost for load in loads))


def _literal(call: Call, most: int) -> str:
    wanted = call.arguments[-1]
    text = wanted.text if isinstance(wanted, Constant) else None
    if text is None or len(text) > most:
        raise TooMuchError(
            f"what {call.function} looks for must be a text of up to {most} characters, written out"
        )
    return text


def _is_free(_call: Call, _sizes: list[float]) -> Load:
    return Load()


def _scans(_call: Call, sizes: list[float]) -> Load:
    return Load(cost=_SCAN * max(sizes))


def _converts(_call: Call, sizes: list[float]) -> Load:
    return Load(cost=_CONVERSION * sum(sizes))


def _keeps(_call: Call, sizes: list[float]) -> Load:
    return Load(sum(sizes), _CONVERSION * sum(sizes))


def _compares(_call: Call, sizes: list[float]) -> Load:
    return Load(cost=_EQUALITY * min(sizes))


def _looks_in(_call: Call, sizes: list[float]) -> Load:
    return Load(cost=_EQUALITY * sizes[-1])


def _picks(_call: Call, sizes: list[float]) -> Load:
    return Load(sizes[0])


def _chooses(_call: Call, sizes: list[float]) -> Load:
    return Load(max(sizes))


def _adds(_call: Call, sizes: list[float]) -> Load:
    return Load(sum(sizes), _ADDITION * sum(sizes))


def _searches(call: Call, sizes: list[float]) -> Load:
    needle = _literal(call, LONGEST_NEEDLE)
    return Load(cost=(_SEARCH + _NEEDLE * len(needle)) * sizes[0])


def _matches(call: Call, sizes: list[float]) -> Load:
    pattern = _literal(call, LONGEST_PATTERN)
    if "{" in pattern:
        raise TooMuchError("the pattern of matches cannot count with { }")
    return Load(cost=_PATTERN * max(1, len(pattern)) * sizes[0])


_LOGIC = ("_&&_", "_||_", "!_", "@not_strictly_false")
_NUMBERS = ("-_", "_-_", "_*_", "_/_", "_%_")
_TIMES = (
    *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
)
_ORDER = ("_<_", "_<=_", "_>_", "_>=_", "size", "startsWith", "endsWith")
_KINDS = ("int", "uint", "double", "bool", "timestamp", "duration", "type")
# What is not here cannot be used: nobody has measured it.
_RULES: Mapping[str, Callable[[Call, list[float]], Load]] = {
    **dict.fromkeys((*_LOGIC, *_NUMBERS, *_TIMES), _is_free),
    **dict.fromkeys(_ORDER, _scans),
    **dict.fromkeys(_KINDS, _converts),
    **dict.fromkeys(("string", "dyn"), _keeps),
    **dict.fromkeys(("_==_", "_!=_"), _compares),
    "@in": _looks_in,
    "_[_]": _picks,
    "_?_:_": _chooses,
    "_+_": _adds,
    "contains": _searches,
    "matches": _matches,
}


def _is_path(node: Node) -> bool:
    """Whether it is data or event, or something in them: no larger than they are."""
    match node:
        case Name(name):
            return name in _EVENT
        case Select(operand, False):
            return _is_path(operand)
        case Call("_[_]", (operand, Constant())):
            return _is_path(operand)
        case _:
            return False


def _sum(loads: list[Load]) -> Load:
    return Load(sum(load.size for load in loads), sum(load.cost for load in loads))
