"""What expressions mean, as a table: this is the specification."""

from typing import Any

import pytest

from core.expressions.semantics import MAX_ITEMS, MAX_TEXT, EvaluationError
from handlers.filters.expressions import compile_expression
from tests.unit.core.expressions.evaluation import evaluate

VALUES: list[tuple[str, Any]] = [
    # names
    ("status", "open"),
    ("record.status", "open"),
    ("missing", None),
    ("record.missing.deeper", None),
    ("nested.deep.n", 1),
    ("status.length", None),
    ("previous.status", "new"),
    ("vars.n", 7),
    ("ctx.anything", None),
    ("user", "jo"),
    ("has(record.none)", True),
    ("has(record.missing)", False),
    ("has(status.x)", False),
    ("tags[1]", "y"),
    ("tags[2]", None),
    ("tags[-1]", None),
    ("tags['a']", None),
    ("tags[true]", None),
    ("nested['deep'].n", 1),
    ("nested[0]", None),
    ("status[0]", None),
    # logic is lazy, and null is false in it
    ("true && false", False),
    ("missing && true", False),
    ("missing || true", True),
    ("!missing", True),
    ("false && 1 / 0 == 1", False),
    ("true || 1 / 0 == 1", True),
    ("AND(paid, total > 1, status == 'open')", True),
    ("OR(false, paid)", True),
    ("AND(paid)", True),
    ("NOT(paid)", False),
    ("IF(paid, 'yes', 1 / 0)", "yes"),
    ("IF(missing, 1, 2)", 2),
    ("paid ? 1 : 2", 1),
    ("(paid ? true : false) && paid", True),
    ("IF(paid, 1 == 1, 1 == 2) && true", True),
    # equality: as JSON; true is not 1
    ("total == 12", True),
    ("total = 12.0", True),
    ("12 == total", True),
    ("total <> 13", True),
    ("total != 12", False),
    ("paid == 1", False),
    ("paid == true", True),
    ("1 == '1'", False),
    ("'open' == status", True),
    ("status != 'open'", False),
    ("missing == null", True),
    ("null == missing", True),
    ("status != NULL", True),
    ("missing == none", True),
    ("tags == ['x', 'y']", True),
    ("tags == ['x']", False),
    ("tags == nested", False),
    ("nested == nested", True),
    ("[1, [true]] == [1.0, [1]]", False),
    ("nested.deep == tags", False),
    # order: numbers with numbers, texts with texts; null is neither less nor greater
    ("total > 11.5", True),
    ("total >= 12", True),
    ("total < 12", False),
    ("total <= 12", True),
    ("'a' < 'b'", True),
    ("missing < 1", False),
    ("1 > missing", False),
    ("null <= null", False),
    # in arithmetic null is 0
    ("total + 1", 13),
    ("total - price", 9.5),
    ("total * 2", 24),
    ("7 / 2", 3.5),
    ("6 / 3", 2),
    ("7 % 3", 1),
    ("-7 % 3", -1),
    ("missing + 5", 5),
    ("missing + missing", 0),
    ("-total", -12),
    ("-missing", 0),
    # text
    ("status + '!'", "open!"),
    ("'n: ' + total", "n: 12"),
    ("'p: ' + price", "p: 2.5"),
    ("'p: ' + (price + price)", "p: 5"),
    ("missing + 'x'", "x"),
    ("paid + '/' + (1 == 2)", "true/false"),
    # membership
    ("'x' in tags", True),
    ("'z' in tags", False),
    ("'status' in changed", True),
    ("changed('status')", True),
    ("changed('total')", False),
    ("'deep' in nested", True),
    ("1 in nested", False),
    ("1 in missing", False),
    ("total in [11, 12.0]", True),
    # quantifiers
    ("tags.exists(t, t == 'x')", True),
    ("tags.all(t, t == 'x')", False),
    ("tags.all(t, t.size() == 1)", True),
    ("tags.exists_one(t, t == 'x')", True),
    ("missing.all(t, 1 / 0 == 1)", True),
    ("missing.exists(t, true)", False),
    ("nested.exists(name, name == 'deep')", True),
    ("tags.exists(record, record == 'x')", True),
    ("tags.exists(t, status == 'open')", True),
    ("tags.exists(t, t == 'x') && has(record.status)", True),
    ("status.startsWith('o') && paid", True),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_an_expression_has_this_value(text: str, value: Any) -> None:
    found = evaluate(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 / 0", "character 3: division by zero"),
        ("total % missing", "character 7: division by zero"),
        ("status && true", "character 1: expected true or false, found a text"),
        ("!total", "character 2: expected true or false, found a number"),
        ("1 < 'a'", "character 3: a number < a text has no meaning"),
        ("ABS(nested)", "character 4: expected a number, found a map"),
        ("DATEDIFF(TRUE, due)", "character 9: a boolean is not a date such as 2026-01-31"),
        ("paid > false", "character 6: a boolean > a boolean has no meaning"),
        ("tags + 1", "character 6: expected a number, found a list"),
        ("nested + 'x'", "character 8: expected a text or a number, found a map"),
        ("-status", "character 1: expected a number, found a text"),
        ("1 in status", "character 3: in expects a list or a map, found a text"),
        ("status.all(t, true)", "character 11: expected a list, found a text"),
        ("9223372036854775807 + 1", "character 21: the result is out of the range of numbers"),
        ("1e308 * 10.0", "character 7: the result is out of the range of numbers"),
    ],
)
def test_what_has_no_value_says_where(text: str, says: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(text)
    assert str(caught.value) == says


LONG_TEXTS = {
    "a": "€" * 30_000, "b": "".join(["€"] * 30_000), "c": "€" * 5_000, "m": {"€" * 30_000: 1},
    "l": [1] * 1_000,
}  # fmt: skip


@pytest.mark.parametrize("text", ["n / 3", "n * 2.5", "1.5 + n", "n - 1", "n % 2", "-n", "ABS(n)"])
@pytest.mark.parametrize("number", [10**400, -(10**400), 2**63])
def test_an_integer_of_many_digits_is_out_of_range(text: str, number: int) -> None:
    for one in (text, "ROUND(n, 2)", "'n: ' + n", "LEN(n)", "VALUE(n)"):
        with pytest.raises(EvaluationError, match="out of the range of numbers"):
            evaluate(one, {"n": number})
    assert evaluate("n == n && !(n < 1.5 && n > 1.5)", {"n": number}) is True


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ("a == b", {"a": [0] * (MAX_ITEMS + 1), "b": [0] * (MAX_ITEMS + 1)}),
        ("1 in a", {"a": [0] * (MAX_ITEMS + 1)}),
        ("a.all(i, i == 0)", {"a": [0] * (MAX_ITEMS + 1)}),
        ("[1] in a", {"a": [[0] * 5_000, [0] * 5_000]}),
        ("a + b", {"a": "x" * MAX_TEXT, "b": "y"}),
        ("UPPER(a)", {"a": "x" * (MAX_TEXT + 1)}),
    ],
)
def test_large_values_are_refused_instead_of_taking_long(text: str, record: dict[str, Any]) -> None:
    if text == "[1] in a":
        assert evaluate(text, record) is False
        return
    with pytest.raises(EvaluationError, match="more than"):
        evaluate(text, record)


@pytest.mark.parametrize(
    ("text", "record", "says"),
    [
        ("a == b", {"a": [1] * 1_001, "b": [1] * 1_001}, "more than 1,000 items to compare"),
        ("a == b && c == d", dict.fromkeys("abcd", [1] * 600), "more than 1,000 items to compare"),
        ("1 in a", {"a": [0] * 1_001}, "more than 1,000 items to compare"),
        ("a.all(x, true)", {"a": [0] * 1_001}, "a list of more than 1,000 items"),
        ("a + a == ''", {"a": "x" * 8_193}, "a text of more than 16,384 characters"),
        ("UPPER(a) == ''", {"a": "ß" * 4_097}, "a text beyond ASCII of more than 4,096"),
        ("VALUE(a) == 1", {"a": "1" * 401}, "is not a number"),
        ("REGEX(a, 'x*')", {"a": "x" * 3_000}, "a text of more than 2,048 bytes for this pattern"),
        ("l.all(x, a == b)", LONG_TEXTS, "more than 524,288 characters to compare"),
        ("l.all(x, a in m)", LONG_TEXTS, "more than 524,288 characters to compare"),
        ("l.all(x, a in [b])", LONG_TEXTS, "more than 524,288 characters to compare"),
        ("l.all(x, c + c != '')", LONG_TEXTS, "more than 524,288 characters to compare"),
        ("m[a] == 1", LONG_TEXTS, "a name of more than 256 characters"),
        ("a < b", LONG_TEXTS, "texts to order that have the same first 256 characters"),
        ("MAX(a, b)", LONG_TEXTS, "texts to order that have the same first 256 characters"),
    ],
)
def test_what_would_take_long_is_an_error(text: str, record: dict[str, Any], says: str) -> None:
    with pytest.raises(EvaluationError, match=says):
        evaluate(text, record)


@pytest.mark.parametrize(
    ("text", "record", "value"),
    [
        ("a == b", {"a": [1], "b": {"x": 1}}, False),
        ("a == b", {"a": [1, 2], "b": [1]}, False),
        ("a == b", {"a": [1, [True]], "b": [1.0, [True]]}, True),
        ("a == b", {"a": [1], "b": [True]}, False),
        ("a == b", {"a": {"x": 1}, "b": {"y": 1}}, False),
        ("a in b", {"a": [1], "b": [[2], [1]]}, True),
        ("a in [1, 'x', null]", {"a": 1.0}, True),
        ("a in [1, 'x', null]", {"a": True}, False),
        ("a in [1, 'x', null]", {"a": "x"}, True),
        ("a in [1, 'x', null]", {"a": []}, False),
        ("a in [1, 'x', null]", {}, True),
        ("a in [b, 2]", {"a": 7, "b": 7}, True),
        ("UPPER(a) == a", {"a": "X" * 60_000}, True),
        ("changed(1)", {}, False),
        ("a < b", {"a": "x" * 300, "b": "xy" * 300}, True),
        ("a >= b", {"a": "x" * 300, "b": "xy" * 300}, False),
        ("a < b", {"a": "x" * 256, "b": "x" * 300}, True),
        ("a == b", {"a": "x" * 300, "b": "x" * 301}, False),
        ("a == b", {"a": "x" * 300, "b": "x" * 299 + "y"}, False),
        ("a in b", {"a": "x" * 300, "b": ["y", "x" * 300]}, True),
        ("a in b", {"a": "x" * 300, "b": {"x" * 300: 1}}, True),
        ("a.all(x, x + 1 > 1)", {"a": [1, 2.5]}, True),
        ("a.exists(x, x + '!' == 'b!')", {"a": ["a", "b"]}, True),
        ("1 == null", {}, False),
    ],
)
def test_comparisons_are_exact(text: str, record: dict[str, Any], value: bool) -> None:
    assert evaluate(text, record) is value


def test_what_changed_has_a_limited_length() -> None:
    found = compile_expression("changed('a')")
    assert found.evaluate({}.get, {"changed": ["a"]}) is True
    assert found.evaluate({}.get, {}) is False
    with pytest.raises(EvaluationError, match="a list of more than 1,000 items"):
        found.evaluate({}.get, {"changed": ["b"] * 1_001})
