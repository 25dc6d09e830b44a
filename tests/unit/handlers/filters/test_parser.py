"""Expressions are parsed by CEL's parser, and mean in both what has a value in both."""

from functools import cache
from typing import Any

import pytest
from cel_expr_python import cel
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from core.expressions.semantics import EvaluationError
from core.expressions.tree import InvalidExpressionError
from handlers.filters.expressions import compile_expression
from handlers.filters.parser import MAX_EXPRESSION_CHARS, parse_expression


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "an expression has 1 to 4,000 characters"),
        ("   ", "an expression has 1 to 4,000 characters"),
        ("x" * (MAX_EXPRESSION_CHARS + 1), "an expression has 1 to 4,000 characters"),
        ("a ==", "character 5: the expression ends too early"),
        ("(a", "character 3: the expression ends too early"),
        ("a b", "character 3: unexpected 'b'"),
        ("a = 1 && b = ) ", "character 14: unexpected ')'"),
        ("a &&\n  )", "character 8: unexpected ')'"),
        ("a # b", "character 3: unexpected '#'"),
        ("a == 'x", "unexpected ''x'"),
        ("a" + "+a" * 1_000, "parts are nested too deep"),
        ("(" * 1_900 + "a" + ")" * 1_900, "parts are nested too deep"),
        ("[" * 1_900 + "a" + "]" * 1_900, "parts are nested too deep"),
        ("a == '\u0000' #", "unexpected"),
    ],
)
def test_what_is_no_expression_says_where(text: str, says: str) -> None:
    with pytest.raises(InvalidExpressionError) as caught:
        parse_expression(text)
    assert says in str(caught.value)


RECORD: dict[str, Any] = {
    "i": 3, "j": -2, "d": 2.5, "s": "abc", "t": "b", "yes": True, "no": False, "l": [1, 2, 3],
    "w": ["a", "b"],
}  # fmt: skip
KINDS = {
    **dict.fromkeys(("i", "j"), cel.Type.INT),
    "d": cel.Type.DOUBLE,
    **dict.fromkeys(("s", "t"), cel.Type.STRING),
    **dict.fromkeys(("yes", "no"), cel.Type.BOOL),
    "l": cel.Type.List(cel.Type.INT),
    "w": cel.Type.List(cel.Type.STRING),
}

numbers = st.sampled_from(["i", "j", "0", "3", "-7"])
decimals = st.sampled_from(["d", "2.5", "-0.5"])
texts = st.sampled_from(["s", "t", "'abc'", '"b"', "''"])
integers = st.recursive(
    numbers,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner)
        | st.builds("-({})".format, inner)
        | st.builds("size({})".format, st.sampled_from(["s", "l", "w"]))
    ),
    max_leaves=4,
)
order = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
comparisons = (
    st.builds("{} {} {}".format, integers, order, integers)
    | st.builds("{} {} {}".format, decimals, order, decimals)
    | st.builds("{} {} {}".format, texts, order, texts)
    | st.builds("{} in l".format, integers)
    | st.builds("{} in w".format, texts)
    | st.builds("{}.{}({})".format, texts, st.sampled_from(["contains", "startsWith"]), texts)
    # What stands within a loop counts 200 times: longer parts would mostly pass the bound on cost.
    | st.builds("l.{}(x, x > {})".format, st.sampled_from(["all", "exists"]), numbers)
    | st.sampled_from(["yes", "no", "true", "false"])
)
conditions = st.recursive(
    comparisons.map("({})".format),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["&&", "||"]), inner)
        | st.builds("!{}".format, inner)
        | st.builds("({} ? {} : {})".format, inner, inner, inner)
    ),
    max_leaves=5,
)


@cache
def environment() -> Any:
    return cel.NewEnv(variables=KINDS)


@given(conditions)
@settings(max_examples=400)
def test_where_the_library_has_a_value_it_is_ours(text: str) -> None:
    try:
        compiled = compile_expression(text)
    except InvalidExpressionError as refused:
        # The library has no such bound; anything else that it takes must be taken.
        if "could take too long" not in str(refused):
            raise
        reject()
    expected = environment().compile(text).eval(data=RECORD).value()
    assert compiled.evaluate(RECORD.get, {}) is expected, text


@given(st.text(alphabet="ab1.()[]'\"=<>!&|+-*/% ,?:{}", max_size=40))
@settings(max_examples=300)
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        compiled = compile_expression(text)
    except InvalidExpressionError:
        return
    try:
        compiled.evaluate({"a": 1, "b": "x"}.get, {})
    except EvaluationError:
        return
