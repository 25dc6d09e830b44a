"""Parses expressions with CEL's own parser into the tree that `core/expressions` compiles."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from cel_expr_python import cel
from google.protobuf.any_pb2 import Any as AnyMessage

from core.expressions.normalization import NormalizedText, normalize
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
from handlers.filters.expression_pb2 import Expr, ParsedExpr

MAX_EXPRESSION_CHARS = 4_000
_UNEXPECTED = re.compile(r"(?:input|error at:) ('.*?')(?: expecting|$)")
_ERROR = re.compile(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?([^\n]*)")


def parse_expression(text: str) -> Node:
    """Parse an expression as people write it.

    Raises:
        InvalidExpressionError: It is too long, or a syntax error.
    """
    if not 0 < len(text.strip()) <= len(text) <= MAX_EXPRESSION_CHARS:
        raise InvalidExpressionError(f"an expression has 1 to {MAX_EXPRESSION_CHARS:,} characters")
    written = normalize(text)
    try:
        serialized = _environment().compile(written.text, disable_check=True).serialize()
    except Exception as error:  # the library does not say what it raises
        raise _syntax_error(str(error), written) from None
    parsed = ParsedExpr.FromString(AnyMessage.FromString(serialized).value)
    return _Reader(parsed.source_info.positions, written).node(parsed.expr)


@cache
def _environment() -> Any:
    return cel.NewEnv(variables={})


def _syntax_error(message: str, written: NormalizedText) -> InvalidExpressionError:
    if "recursion" in message:
        return InvalidExpressionError("parts are nested too deep")
    found = _ERROR.search(message)
    if found is None:
        return InvalidExpressionError("not an expression")
    line, column, problem = int(found[1]), int(found[2]), found[3]
    before = sum(len(one) + 1 for one in written.text.split("\n")[: line - 1])
    return InvalidExpressionError(_plain(problem), written.original(before + column - 1))


def _plain(problem: str) -> str:
    """Return the parser's message in plain words."""
    if "'<EOF>'" in problem.partition("expecting")[0]:
        return "the expression ends too early"
    found = _UNEXPECTED.search(problem)
    return f"unexpected {found[1]}" if found else problem


class _Reader:
    def __init__(self, positions: Mapping[int, int], written: NormalizedText) -> None:
        self._positions = positions
        self._written = written

    def node(self, expr: Expr) -> Node:
        at = self._written.original(self._positions.get(expr.id, 0))
        match expr.WhichOneof("expr_kind"):
            case "const_expr":
                return self._constant(expr, at)
            case "ident_expr":
                return Name(expr.ident_expr.name, at)
            case "select_expr":
                select = expr.select_expr
                return Select(self.node(select.operand), select.field, select.test_only, at)
            case "call_expr":
                call = expr.call_expr
                is_method = call.HasField("target")
                parts = [call.target, *call.args] if is_method else call.args
                return Call(call.function, tuple(map(self.node, parts)), at, is_method)
            case "list_expr":
                return ListLiteral(tuple(map(self.node, expr.list_expr.elements)), at)
            case "comprehension_expr":
                return self._quantifier(expr.comprehension_expr, at)
            case _:
                raise InvalidExpressionError("maps and messages cannot be written here", at)

    @staticmethod
    def _constant(expr: Expr, at: int) -> Constant:
        kind = expr.const_expr.WhichOneof("constant_kind")
        if kind is None:
            raise InvalidExpressionError("bytes cannot be written here", at)
        value = None if kind == "null_value" else getattr(expr.const_expr, kind)
        return Constant(value, at)

    def _quantifier(self, loop: Expr.Comprehension, at: int) -> Quantifier:
        """Recognize the macro that a comprehension was written as, by its first value."""
        match loop.accu_init.const_expr.WhichOneof("constant_kind"):
            case "bool_value" if loop.accu_init.const_expr.bool_value:
                kind, condition = "all", loop.loop_step.call_expr.args[1]
            case "bool_value":
                kind, condition = "exists", loop.loop_step.call_expr.args[1]
            case "int64_value":
                kind, condition = "exists_one", loop.loop_step.call_expr.args[0]
            case _:
                raise InvalidExpressionError(
                    "map and filter cannot be used: use all, exists or exists_one", at
                )
        over = self.node(loop.iter_range)
        return Quantifier(kind, over, loop.iter_var, self.node(condition), at)
