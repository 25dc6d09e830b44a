"""The functions of expressions, as a table."""

from typing import Any

import pytest

from core.expressions.functions import MAX_PLACES
from core.expressions.semantics import EvaluationError
from tests.unit.core.expressions.evaluation import evaluate

VALUES: list[tuple[str, Any]] = [
    ("TODAY()", "2026-11-18"),
    ("now()", "2026-11-18T10:00:00Z"),
    ("now", "2026-11-18T10:00:00Z"),
    ("ISBLANK(missing)", True),
    ("ISBLANK(empty)", True),
    ("ISBLANK([])", True),
    ("ISBLANK(0)", False),
    ("ISBLANK(false)", False),
    ("ISBLANK(missing) && true", True),
    ("BLANKVALUE(missing, 3)", 3),
    ("BLANKVALUE(status, 3)", "open"),
    ("LEN(status)", 4),
    ("len(missing)", 0),
    ("LEN(total)", 2),
    ("LEN(tags)", 2),
    ("size(tags)", 2),
    ("status.size()", 4),
    ("CONTAINS(status, 'pe')", True),
    ("contains(status, 'z')", False),
    ("status.contains('pe')", True),
    ("status.startsWith('op')", True),
    ("status.endsWith('op')", False),
    ("UPPER(status)", "OPEN"),
    ("LOWER('ABC')", "abc"),
    ("TRIM('  a ')", "a"),
    ("TEXT(total)", "12"),
    ("TEXT(missing)", ""),
    ("VALUE('12')", 12),
    ("VALUE(' 1.5 ')", 1.5),
    ("VALUE('-3')", -3),
    ("VALUE('1e3')", 1000),
    ("VALUE(total)", 12),
    ("VALUE(missing)", None),
    ("ROUND(2.5, 0)", 3),
    ("ROUND(-2.5, 0)", -3),
    ("ROUND(1.005, 2)", 1.01),
    ("ROUND(total, 2)", 12.0),
    ("ROUND(1e300, 2)", 1e300),
    ("ABS(-3)", 3),
    ("MAX(1, 2.5)", 2.5),
    ("MAX(2, 1)", 2),
    ("MAX(missing, 1)", 1),
    ("MAX(1, missing)", 1),
    ("MIN('a', 'b')", "a"),
    ("MIN(2, 1)", 1),
    ("MIN(missing, 1)", 1),
    ("REGEX(status, 'o.*n')", True),
    ("REGEX(status, 'pe')", False),
    ("status.matches('op.+')", True),
    ("DATEDIFF(due, '2026-01-01T23:00:00Z')", 30),
    ("DATEDIFF('2026-01-01', due)", -30),
    ("DATEDIFF(missing, due)", None),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_a_function_has_this_value(text: str, value: Any) -> None:
    found = evaluate(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("VALUE('x1')", "'x1' is not a number"),
        ("VALUE('nan')", "out of the range"),
        ("VALUE('1e999')", "out of the range"),
        ("VALUE(tags)", "expected a number, found a list"),
        ("ROUND(1, 16)", f"ROUND expects 0 to {MAX_PLACES} places"),
        ("ROUND(1, 0.5)", "ROUND expects"),
        ("MAX(1, 'a')", "a number < a text has no meaning"),
        ("DATEDIFF('yesterday', due)", "'yesterday' is not a date such as 2026-01-31"),
        ("DATEDIFF(1, due)", "a number is not a date"),
        ("UPPER(tags)", "expected a text or a number, found a list"),
    ],
)
def test_a_function_refuses(text: str, says: str) -> None:
    with pytest.raises(EvaluationError, match=says):
        evaluate(text)
