"""Expressions from their text to a function: parsed by CEL, compiled by `core/expressions`."""

from functools import lru_cache

from core.expressions.compiler import compile_tree
from core.expressions.expression import CompiledExpression
from handlers.filters.parser import parse_expression
from handlers.filters.patterns import compile_pattern

_COMPILED_EXPRESSIONS = 2_000


@lru_cache(_COMPILED_EXPRESSIONS)
def compile_expression(text: str) -> CompiledExpression:
    """Compile an expression as people write it.

    Raises:
        InvalidExpressionError: It is a syntax error, names what does not exist, or costs too much.
    """
    return compile_tree(parse_expression(text), compile_pattern)
