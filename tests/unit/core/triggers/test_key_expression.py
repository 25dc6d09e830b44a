"""Custom expressions of keys in both forms, and what is refused in them."""

import pytest

from core.expressions.expression import CompiledExpression
from core.expressions.tree import InvalidExpressionError
from core.triggers.key_expression import compile_key_expression
from handlers.filters.expressions import compile_expression


def shape(text: str) -> list[str]:
    """Write each expression as `*`."""
    parts = compile_key_expression(text, compile_expression).parts
    return ["*" if isinstance(one, CompiledExpression) else one for one in parts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#{triggerId}_#{ctx['x']}", ["*", "_", "*"]),
        ("order-#{ctx['}'] + \"{\"}", ["order-", "*"]),
        ("ctx['#x']", ["*"]),
        ("#{a}#{b}", ["*", "*"]),
    ],
)
def test_both_forms(text: str, expected: list[str]) -> None:
    assert shape(text) == expected


def test_only_a_single_expression_may_not_be_null() -> None:
    forms = {"a": False, "#{a}": False, "#{a}!": True, "!#{a}": True, "#{a}#{b}": True}
    for text, is_template in forms.items():
        assert compile_key_expression(text, compile_expression).is_template is is_template


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("#{", "character 1: #{ needs an expression and a closing }"),
        ("a#{ctx['x'}", "character 11: the expression ends too early"),
        ("a#{ctx['x]}", "character 2: #{ needs an expression and a closing }"),
        ("#{a}_#{b", "character 6: #{ needs an expression and a closing }"),
        ("#{}", "an expression has 1 to 4,000 characters"),
        ("xy#{a ==}", "character 9: the expression ends too early"),
        ("#{now}", "now cannot be part of a key: there are ctx, eventId, eventName, triggerId"),
        ("#ctx['a'] + user", "user cannot be part of a key"),
        ("#{T(Runtime).exec('x')}", "there is no function"),
        ("#{UPPER(a)}" * 10, "the expressions together could take too long"),
    ],
)
def test_what_cannot_be_a_key_says_where(text: str, says: str) -> None:
    with pytest.raises(InvalidExpressionError) as caught:
        compile_key_expression(text, compile_expression)
    assert says in str(caught.value)
