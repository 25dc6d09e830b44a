"""The custom expression of a trigger: `#{triggerId}_#{ctx['roleId']}`, or one expression."""

import re
from collections.abc import Callable
from typing import NamedTuple

from core.expressions.costs import MAX_COST
from core.expressions.expression import CompiledExpression, total_cost
from core.expressions.tree import InvalidExpressionError

KEY_NAMES = frozenset({"ctx", "triggerId", "eventName", "eventId"})
"""What an expression can read beside the fields of the context, by name."""

_QUOTED = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
_PLACEHOLDER = re.compile(rf"#\{{((?:{_QUOTED}|[^{{}}\"'])*)\}}", re.DOTALL)
_VARIABLE = re.compile(rf"({_QUOTED})|#(?=[A-Za-z_])", re.DOTALL)

CompileExpression = Callable[[str], CompiledExpression]
"""Compiles the text of an expression; raises InvalidExpressionError."""


class KeyExpression(NamedTuple):
    """Text and expressions by turns, whose values make the key together."""

    parts: tuple[str | CompiledExpression, ...]

    @property
    def is_template(self) -> bool:
        """Whether it was written with placeholders, so that a value may be missing."""
        return len(self.parts) > 1 or isinstance(self.parts[0], str)


def compile_key_expression(text: str, compile_expression: CompileExpression) -> KeyExpression:
    """Compile a custom expression in either form; variables may be written `#ctx`.

    Raises:
        InvalidExpressionError: A part is no expression, or reads what keys cannot depend on.
    """
    if "#{" not in text:
        return KeyExpression((_compile(text, 0, compile_expression),))
    parts: list[str | CompiledExpression] = []
    end = 0
    for found in _PLACEHOLDER.finditer(text):
        parts += _literal(text, end, found.start())
        parts.append(_compile(found[1], found.start(1), compile_expression))
        end = found.end()
    parts += _literal(text, end, len(text))
    expressions = [one for one in parts if isinstance(one, CompiledExpression)]
    if total_cost(expressions) > MAX_COST:
        raise InvalidExpressionError("the expressions together could take too long: use fewer")
    return KeyExpression(tuple(parts))


def _literal(text: str, begin: int, end: int) -> list[str]:
    literal = text[begin:end]
    if "#{" in literal:
        at = begin + literal.index("#{")
        raise InvalidExpressionError("#{ needs an expression and a closing }", at)
    return [literal] if literal else []


def _compile(text: str, at: int, compile_expression: CompileExpression) -> CompiledExpression:
    # A space for each #, so that positions stay.
    written = _VARIABLE.sub(lambda found: found[1] or " ", text)
    try:
        compiled = compile_expression(written)
    except InvalidExpressionError as error:
        raise InvalidExpressionError(error.problem, at + (error.at or 0)) from None
    unknown = sorted(compiled.names - KEY_NAMES)
    if unknown:
        raise InvalidExpressionError(
            f"{unknown[0]} cannot be part of a key: there are {', '.join(sorted(KEY_NAMES))} and "
            "the fields of the context",
            at,
        )
    return compiled
