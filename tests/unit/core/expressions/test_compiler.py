"""Compiling expressions: what is refused, and that nothing else than helpers can run."""

import ast
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.expressions import compiler
from core.expressions.compiler import MAX_NODES, compile_tree
from core.expressions.normalization import normalize
from core.expressions.semantics import EvaluationError
from core.expressions.tree import Call, Constant, InvalidExpressionError, Name, Node, Select
from handlers.filters.expressions import compile_expression
from handlers.filters.patterns import compile_pattern
from tests.unit.core.expressions.evaluation import RECORD, SCOPE


def test_it_knows_what_is_read() -> None:
    found = compile_expression(
        "record.a == b && previous.c > 1 && tags.exists(t, t == d) && now > e"
    )
    assert found.fields == {"a", "b", "tags", "d", "e"}
    assert found.names == {"previous", "now"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nosuch(1)", "character 7: there is no function nosuch: there are ABS, AND, "),
        ("status.upper()", "there is no function upper: there are contains, endsWith, size, "),
        ("LEN()", "LEN takes 1 arguments, not 0"),
        ("IF(true, 1)", "IF takes 3 arguments, not 2"),
        ("AND()", "AND takes at least one argument"),
        ("NOT(1, 2)", "NOT takes 1 arguments, not 2"),
        ("TODAY(1)", "TODAY takes 0 arguments, not 1"),
        ("changed()", "changed takes 1 arguments, not 0"),
        ("REGEX(status)", "REGEX takes 2 arguments, not 1"),
        ("REGEX(status, status)", "the pattern must be a text that is written out"),
        ("REGEX(status, '(')", "character 15: not a pattern: "),
        ("tags.all(a, tags.all(b, true))", "all cannot stand within another"),
        ("tags.map(t, t)", "map and filter cannot be used"),
        ("{'a': 1}", "maps and messages cannot be written here"),
        ("b'x' == status", "bytes cannot be written here"),
        (" + ".join(["UPPER(status)"] * 12), "could take too long"),
        ("tags.all(t, UPPER(t) == 'X')", "could take too long"),
        ("tags.all(t, t.startsWith(status))", "could take too long"),
        ("tags.all(t, changed(t))", "could take too long"),
        ("tags.all(t, t <= a && t <= b && t <= c && t <= d && t <= e)", "could take too long"),
    ],
)
def test_what_cannot_be_compiled_says_why(text: str, says: str) -> None:
    with pytest.raises(InvalidExpressionError) as caught:
        compile_expression(text)
    assert says in str(caught.value)


def test_a_choice_costs_as_much_as_its_dearer_branch() -> None:
    dear = " + ".join(["UPPER(status)"] * 5)
    compile_expression(f"IF(status == 'x', {dear}, {dear})")
    compile_expression(f"status == 'x' ? {dear} : status == 'y' ? {dear} : {dear}")
    for text in (f"IF(CONTAINS(status, '{'x' * 9}'), {dear} + {dear}, 1)", f"{dear} + {dear}"):
        with pytest.raises(InvalidExpressionError, match="could take too long"):
            compile_expression(text)


def test_common_conditions_on_items_are_allowed() -> None:
    compile_expression("tags.exists(t, t.startsWith('ab') || t.endsWith('c') || t < '2026')")
    compile_expression("tags.all(t, t.price + t.tax > 0 && t.price <= t.most)")


def test_the_number_of_parts_and_their_depth_are_limited() -> None:
    one: Node = Constant(1, 0)
    with pytest.raises(InvalidExpressionError, match=f"{MAX_NODES} parts at most"):
        compile_tree(Call("AND", (Constant(True, 0),) * MAX_NODES, 0), compile_pattern)
    for _ in range(100):
        one = Call("-_", (one,), 0)
    with pytest.raises(InvalidExpressionError, match="64 deep at most"):
        compile_tree(one, compile_pattern)


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("a = 1 AND b", "a == 1 AND b"),
        ("a == b != c <= d >= e", "a == b != c <= d >= e"),
        ("a <> 'x <> = y'", "a != 'x <> = y'"),
        ("TRUE && Null == False", "true && null == false"),
        (
            "if(isBlank(a), Len(b), c.contains('LEN('))",
            "IF(ISBLANK(a), LEN(b), c.contains('LEN('))",
        ),
        ("record.len == x.TRUE", "record.len == x.TRUE"),
        ("'it\\'s = ' = b", "'it\\'s = ' == b"),
        ("max (1, 2)", "MAX (1, 2)"),
    ],
)
def test_forms_that_people_write_become_cel(written: str, normal: str) -> None:
    assert normalize(written).text == normal


def test_positions_are_those_of_the_text_as_written() -> None:
    found = normalize("a = 1 && b = 2 && c")
    assert [found.original(found.text.index(name)) for name in "abc"] == [0, 9, 18]
    assert normalize("a = b").original(0) == 0


names = st.sampled_from(
    ["status", "total", "tags", "missing", "record", "previous", "now", "__class__"]
)
functions = st.sampled_from(
    ["_&&_", "_||_", "!_", "_==_", "_!=_", "_<_", "_+_", "_-_", "_/_", "_%_", "-_", "_[_]", "@in",
     "IF", "AND", "NOT", "LEN", "UPPER", "VALUE", "ROUND", "MAX", "REGEX", "DATEDIFF", "TODAY",
     "changed", "__import__", "eval", "getattr", "size", "matches"]
)  # fmt: skip
constants = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=5)
)
trees: st.SearchStrategy[Node] = st.recursive(
    st.builds(Constant, constants, st.just(0)) | st.builds(Name, names, st.just(0)),
    lambda inner: (
        st.builds(
            Call, functions, st.lists(inner, max_size=3).map(tuple), st.just(0), st.booleans()
        )
        | st.builds(Select, inner, st.sampled_from(["a", "__dict__"]), st.booleans(), st.just(0))
    ),
    max_leaves=20,
)


@given(trees)
@settings(max_examples=300)
def test_any_tree_has_a_value_or_is_refused(tree: Node) -> None:
    try:
        found = compile_tree(tree, compile_pattern)
    except InvalidExpressionError:
        return
    try:
        found.evaluate(RECORD.get, SCOPE)
    except EvaluationError:
        return


@given(trees)
@settings(max_examples=200)
def test_generated_code_has_no_attributes_no_subscripts_and_no_builtins(tree: Node) -> None:
    allowed = (
        ast.Call, ast.Name, ast.Constant, ast.BoolOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.List,
        ast.GeneratorExp, ast.comprehension, ast.expr_context, ast.boolop, ast.unaryop, ast.cmpop,
    )  # fmt: skip
    generator = compiler._Generator(compile_pattern)
    try:
        code: Any = generator.code(tree)
    except InvalidExpressionError:
        return
    assert all(isinstance(part, allowed) for part in ast.walk(code))
    names = {part.id for part in ast.walk(code) if isinstance(part, ast.Name)}
    assert names <= {"field_of", "scope", "comparison", "item", *generator.helpers}
