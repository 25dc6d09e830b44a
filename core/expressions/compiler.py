"""Compiles expressions to Python functions.

The generated code calls the helpers of this package and combines them with literals, `and`, `or`,
`not` and conditional expressions. It has no attributes, no subscripts, no builtins, and no loops
but those of `all` and `exists`, over lists of limited length.
"""

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from core.expressions import costs, semantics
from core.expressions.expression import CompiledExpression, Evaluate, total_cost
from core.expressions.functions import FUNCTION_TABLE, METHOD_TABLE
from core.expressions.semantics import Comparison
from core.expressions.tree import (
    Call,
    Constant,
    InvalidExpressionError,
    ListLiteral,
    Name,
    Node,
    Quantifier,
    Select,
)

MAX_NODES = 500
MAX_DEPTH = 64

RECORD = "record"
NAMES = frozenset(
    {
        RECORD, "previous", "changed", "ctx", "trigger", "triggerId", "eventName", "eventId",
        "user", "now", "vars",
    }
)  # fmt: skip


class Pattern(Protocol):
    """A pattern that a text has to match as a whole."""

    @property
    def steps(self) -> int:
        """How much a match takes at worst: parts of the pattern times bytes of the text."""

    def __call__(self, text: str) -> bool:
        """Return whether a text matches.

        Raises:
            ValueError: The text is too long for the pattern.
        """


CompilePattern = Callable[[str], Pattern]
"""Compiles a pattern; raises ValueError."""

_ORDER: Mapping[str, Callable[..., Any]] = {
    "_<_": semantics.less,
    "_<=_": semantics.less_or_equal,
    "_>_": semantics.greater,
    "_>=_": semantics.greater_or_equal,
}
_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "_+_": semantics.add,
    "_-_": semantics.subtract,
    "_*_": semantics.multiply,
    "_/_": semantics.divide,
    "_%_": semantics.remainder,
    "-_": semantics.negate,
    "_[_]": semantics.item,
}
_ARITY = {
    **dict.fromkeys(("NOW", "TODAY"), 0),
    **dict.fromkeys(("!_", "-_", "NOT", "changed"), 1),
    **dict.fromkeys(("_==_", "_!=_", "_&&_", "_||_", "@in", "REGEX", "matches"), 2),
    **dict.fromkeys((*_ORDER, *_ARITHMETIC.keys() - {"-_"}), 2),
    **dict.fromkeys(("_?_:_", "IF"), 3),
}


def compile_tree(tree: Node, compile_pattern: CompilePattern) -> CompiledExpression:
    """Compile the tree of an expression.

    Raises:
        InvalidExpressionError: A function is unknown, or the expression could take too long.
    """
    generator = _Generator(compile_pattern)
    code = generator.code(tree)
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(name) for name in ("field_of", "scope", "comparison")],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[_NULL],
    )
    function = ast.fix_missing_locations(ast.Expression(ast.Lambda(arguments, code)))
    scope = {"__builtins__": {}, **generator.helpers}
    evaluate = eval(compile(function, "<expression>", "eval"), scope)  # noqa: S307  made above
    if generator.compares:
        evaluate = _with_comparison(evaluate)
    names, fields = frozenset(generator.names), frozenset(generator.fields)
    compiled = CompiledExpression(evaluate, names, fields, generator.cost, generator.compares)
    if total_cost([compiled]) > costs.MAX_COST:
        raise InvalidExpressionError(
            "the expression could take too long: use fewer functions that read texts, smaller "
            "patterns, or fewer parts within all and exists"
        )
    return compiled


def _with_comparison(compare: Callable[..., Any]) -> Evaluate:
    """Give each evaluation that is given none a comparison of its own."""
    return lambda field_of, scope, comparison=None: compare(
        field_of, scope, comparison or Comparison()
    )


class _Generator:
    """Generates the code of one expression, and notes what it reads and costs."""

    def __init__(self, compile_pattern: CompilePattern) -> None:
        self.helpers: dict[str, Callable[..., Any]] = {}
        self.names: set[str] = set()
        self.fields: set[str] = set()
        self.cost = 0.0
        self.compares = False
        """Whether lists and maps are compared, by `comparison`."""
        self._compile_pattern = compile_pattern
        self._nodes = 0
        self._depth = 0
        self._variable: str | None = None
        self._forms: dict[str, Callable[[Call], ast.expr]] = {
            **dict.fromkeys(("_&&_", "AND", "_||_", "OR"), self._logic),
            **dict.fromkeys(("!_", "NOT"), self._not),
            **dict.fromkeys(("_?_:_", "IF"), self._choice),
            **dict.fromkeys(("_==_", "_!=_"), self._equality),
            **dict.fromkeys(("NOW", "TODAY"), self._clock),
            "@in": self._membership,
            "changed": self._changed,
            **dict.fromkeys(("REGEX", "matches"), self._pattern),
        }

    def code(self, node: Node) -> ast.expr:
        self._nodes += 1
        self._depth += 1
        self._spend(costs.NODE_COST)
        if self._nodes > MAX_NODES:
            raise InvalidExpressionError(f"an expression has {MAX_NODES} parts at most", node.at)
        if self._depth > MAX_DEPTH:
            raise InvalidExpressionError(f"parts are nested {MAX_DEPTH} deep at most", node.at)
        code = self._code(node)
        self._depth -= 1
        return code

    def _code(self, node: Node) -> ast.expr:
        match node:
            case Constant(value):
                return ast.Constant(value)
            case Name(name):
                return self._name(name)
            case Select():
                return self._select(node)
            case ListLiteral(items):
                return ast.List([self.code(item) for item in items], ast.Load())
            case Quantifier():
                return self._quantifier(node)
            case _:
                return self._call(node)

    def _name(self, name: str) -> ast.expr:
        if name == self._variable:
            return _load("item")
        return self._named(name) if name in NAMES else self._field(name)

    def _named(self, name: str) -> ast.expr:
        self.names.add(name)
        return self._invoke(semantics.field, _load("scope"), ast.Constant(name))

    def _field(self, name: str) -> ast.expr:
        self.fields.add(name)
        return ast.Call(_load("field_of"), [ast.Constant(name)], [])

    def _select(self, node: Select) -> ast.expr:
        name = ast.Constant(node.field)
        if node.tests:
            return self._invoke(semantics.has_field, self.code(node.operand), name)
        if isinstance(node.operand, Name) and node.operand.name == RECORD != self._variable:
            return self._field(node.field)
        return self._invoke(semantics.field, self.code(node.operand), name)

    def _quantifier(self, node: Quantifier) -> ast.expr:
        if self._variable is not None:
            raise InvalidExpressionError(f"{node.kind} cannot stand within another", node.at)
        items = self._invoke(semantics.items_of, self.code(node.over), ast.Constant(node.at))
        self._variable = node.variable
        condition = self._condition(node.condition)
        self._variable = None
        each = ast.comprehension(ast.Name("item", ast.Store()), items, ifs=[], is_async=0)
        found = ast.GeneratorExp(condition, [each])
        return self._invoke(_QUANTIFIERS[node.kind], found)

    def _call(self, node: Call) -> ast.expr:
        name = node.function
        if node.is_method and name != "matches":
            return self._function(node, METHOD_TABLE)
        if name in _ARITY:
            _check_arguments(node, _ARITY[name])
        if name in self._forms:
            return self._forms[name](node)
        if name == "_+_" and self._variable is not None:
            one, other = node.arguments
            return self._compare(semantics.add_within, one, other, node.at)
        helper = _ORDER.get(name) or _ARITHMETIC.get(name)
        if helper is not None:
            self._spend(_operator_cost(node))
            return self._apply(helper, node)
        return self._function(node, METHOD_TABLE if name in METHOD_TABLE else FUNCTION_TABLE)

    def _function(self, node: Call, table: Mapping[str, Any]) -> ast.expr:
        signature = table.get(node.function)
        if signature is None:
            written = (name for name in self._forms if name[0].isalpha())
            known = ", ".join(sorted(METHOD_TABLE if node.is_method else {*table, *written}))
            raise InvalidExpressionError(
                f"there is no function {node.function}: there are {known}", node.at
            )
        _check_arguments(node, signature.arguments)
        if signature.reads_last:
            self._spend(_last_text_cost(node))
        self._spend(costs.TEXT_COST if signature.reads_text else 0.0)
        return self._apply(signature.call, node)

    def _apply(self, helper: Callable[..., Any], node: Call) -> ast.expr:
        arguments = [self.code(one) for one in node.arguments]
        return self._invoke(helper, *arguments, ast.Constant(node.at))

    def _invoke(self, helper: Callable[..., Any], *arguments: ast.expr) -> ast.expr:
        name = f"{helper.__name__.strip('<>')}_{id(helper)}"
        self.helpers[name] = helper
        return ast.Call(_load(name), list(arguments), [])

    def _condition(self, node: Node) -> ast.expr:
        code = self.code(node)
        if _is_condition(node):
            return code
        return self._invoke(semantics.truth, code, ast.Constant(node.at))

    def _spend(self, cost: float) -> None:
        self.cost += cost if self._variable is None else cost * costs.LOOP_COST

    def _logic(self, node: Call) -> ast.expr:
        if not node.arguments:
            raise InvalidExpressionError(f"{node.function} takes at least one argument", node.at)
        conditions = [self._condition(one) for one in node.arguments]
        if len(conditions) == 1:
            return conditions[0]
        return ast.BoolOp(ast.And() if node.function in {"_&&_", "AND"} else ast.Or(), conditions)

    def _not(self, node: Call) -> ast.expr:
        return ast.UnaryOp(ast.Not(), self._condition(node.arguments[0]))

    def _choice(self, node: Call) -> ast.expr:
        """Generate a choice; it costs as much as its condition and the dearer of its branches."""
        test, *branches = node.arguments
        condition = self._condition(test)
        before, codes, costs = self.cost, [], []
        for branch in branches:
            self.cost = before
            codes.append(self.code(branch))
            costs.append(self.cost)
        self.cost = max(costs)
        return ast.IfExp(condition, *codes)

    def _equality(self, node: Call) -> ast.expr:
        left, right = node.arguments
        is_equal = node.function == "_==_"
        is_null = isinstance(right, Constant) and right.value is None
        if is_null and not isinstance(left, Constant):  # Python warns of `1 is None`
            return ast.Compare(self.code(left), [ast.Is() if is_equal else ast.IsNot()], [_NULL])
        if isinstance(right, Constant) and isinstance(right.value, str):
            # A text equals nothing but the same text.
            same = ast.Eq() if is_equal else ast.NotEq()
            return ast.Compare(self.code(left), [same], [self.code(right)])
        if isinstance(left, Constant) or isinstance(right, Constant):
            equal = self._invoke(semantics.equal, self.code(left), self.code(right))
        else:
            equal = self._compare(semantics.equal_within, left, right, node.at)
        return equal if is_equal else ast.UnaryOp(ast.Not(), equal)

    def _membership(self, node: Call) -> ast.expr:
        wanted, container = node.arguments
        match container:
            case ListLiteral(items) if all(isinstance(one, Constant) for one in items):
                return self._invoke(semantics.is_one_of, self.code(wanted), self.code(container))
            case _:
                return self._compare(semantics.contains_within, container, wanted, node.at)

    def _compare(self, helper: Callable[..., Any], one: Node, other: Node, at: int) -> ast.expr:
        self.compares = True
        codes = self.code(one), self.code(other)
        return self._invoke(helper, _load("comparison"), *codes, ast.Constant(at))

    def _changed(self, node: Call) -> ast.expr:
        self._spend(costs.CHANGED_COST)
        wanted, changed = self.code(node.arguments[0]), self._named("changed")
        return self._invoke(semantics.is_changed, changed, wanted, ast.Constant(node.at))

    def _clock(self, node: Call) -> ast.expr:
        now = self._named("now")
        return now if node.function == "NOW" else self._invoke(semantics.date_of, now)

    def _pattern(self, node: Call) -> ast.expr:
        text, pattern = node.arguments
        if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
            raise InvalidExpressionError("the pattern must be a text that is written out", node.at)
        try:
            matches = self._compile_pattern(pattern.value)
        except ValueError as error:
            raise InvalidExpressionError(f"not a pattern: {error}", pattern.at) from None
        self._spend(matches.steps * costs.PATTERN_STEP_COST)
        return self._invoke(semantics.matcher(matches, node.at), self.code(text))


def _exactly_one(conditions: Iterable[bool]) -> bool:
    return sum(conditions) == 1


_QUANTIFIERS: Mapping[str, Callable[[Any], bool]] = {
    "all": all,
    "exists": any,
    "exists_one": _exactly_one,
}
_NULL = ast.Constant(None)
_CONDITIONS = frozenset(
    {"_&&_", "_||_", "!_", "AND", "OR", "NOT", "_==_", "_!=_", "@in", "changed", "REGEX", *_ORDER}
)


def _is_condition(node: Node) -> bool:
    """Return True if the value is always true or false."""
    match node:
        case Constant(value):
            return isinstance(value, bool)
        case Quantifier() | Select(tests=True):
            return True
        case Call(function, arguments) if function in {"_?_:_", "IF"}:
            return all(map(_is_condition, arguments[1:]))
        case Call(function, is_method=True):
            return function == "matches" or _returns_condition(METHOD_TABLE, function)
        case Call(function):
            return function in _CONDITIONS or _returns_condition(FUNCTION_TABLE, function)
        case _:
            return False


def _returns_condition(table: Mapping[str, Any], function: str) -> bool:
    return function in table and bool(table[function].is_condition)


def _operator_cost(node: Call) -> float:
    """Return what an operator costs if its operands are texts."""
    if node.function == "_+_":
        return costs.JOIN_COST
    is_number = any(
        isinstance(one, Constant) and not isinstance(one.value, str) for one in node.arguments
    )
    return costs.ORDER_COST if node.function in _ORDER and not is_number else 0.0


def _last_text_cost(node: Call) -> float:
    match node.arguments[-1]:
        case Constant(str(text)):
            return len(text) * costs.CHARACTER_COST
        case _:
            return costs.TEXT_COST


def _check_arguments(node: Call, expected: int) -> None:
    given = len(node.arguments)
    if given != expected:
        raise InvalidExpressionError(
            f"{node.function} takes {expected} arguments, not {given}", node.at
        )


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())
