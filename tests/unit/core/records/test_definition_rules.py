"""Definitions as a whole: names, relationships, formulas, summaries, and how large they are."""

from typing import Any

import pytest

from core.records.collection import MAX_DEFINITION_BYTES, CollectionDefinition, assign_slots
from core.records.definitions.rules import (
    MAX_FAULTS,
    broken_references,
    validate_definition,
)
from core.records.field import FieldDefinition, FieldType, RollupFunction, RollupSummary
from handlers.filters.expressions import compile_expression
from handlers.filters.patterns import compile_pattern

T = FieldType


def field(name: str, kind: FieldType = T.STRING, **settings: Any) -> FieldDefinition:
    return FieldDefinition(name=name, type=kind, **settings)


def definition(*fields: FieldDefinition, name: str = "orders") -> CollectionDefinition:
    return CollectionDefinition(name=name, fields=fields, slots=assign_slots(fields))


def faults(one: CollectionDefinition, *known: CollectionDefinition) -> dict[str, str]:
    by_name = {other.name: other for other in known}
    found = validate_definition(one, by_name, compile_expression, compile_pattern)
    return {fault.pointer: fault.problem for fault in found}


def formula(name: str, text: str) -> FieldDefinition:
    return field(name, T.FORMULA, formula=text)


CUSTOMERS = definition(field("email", T.EMAIL), name="customers")
LINES = definition(
    field("order_id", T.MASTER_DETAIL, target="orders"),
    field("note_id", T.LOOKUP, target="orders"),
    field("other_id", T.MASTER_DETAIL, target="customers"),
    field("amount", T.CURRENCY),
    field("sent", T.DATE),
    field("text"),
    name="lines",
)


def rollup(**settings: Any) -> FieldDefinition:
    given = {"collection": "lines", "relationship": "order_id", "function": "COUNT", **settings}
    given["function"] = RollupFunction(given["function"])
    return field("summary", T.ROLLUP_SUMMARY, rollup=RollupSummary(**given))


def test_a_definition_of_everything_is_valid() -> None:
    one = definition(
        field("name", required=True, indexed=True, max=100),
        field("number", T.AUTO_NUMBER, format="INV-{0000}"),
        field("customer_id", T.LOOKUP, target="customers"),
        field("parent_id", T.REFERENCE, target="orders"),
        field("price", T.CURRENCY, min=0),
        field("quantity", T.INTEGER, default=1),
        formula("total", "price * quantity"),
        formula("label", "TEXT(total) + ' of ' + name"),
        rollup(function="SUM", field="amount"),
    )
    assert faults(one, CUSTOMERS, LINES) == {}


def test_a_definition_has_a_name_and_fields() -> None:
    assert set(faults(definition(name="Orders"))) == {"/name", "/fields"}


def test_each_name_stands_once() -> None:
    found = faults(definition(field("a"), field("b"), field("a", T.DATE)))
    assert set(found) == {"/fields/2/name"}
    assert "field 0" in found["/fields/2/name"]


def test_a_collection_of_ten_thousand_fields_is_refused() -> None:
    found = faults(definition(*(field(f"f{i}", default=object()) for i in range(10_000))))
    assert found == {"/fields": "are 500 at most"}


def test_a_long_definition_is_refused() -> None:
    values = tuple(f"{i}{'x' * 250}" for i in range(1_000))
    fits = definition(field("a", T.PICKLIST, values=values))
    assert faults(fits) == {}
    found = faults(definition(*fits.fields, field("b", T.PICKLIST, values=values)))
    assert list(found) == [""]
    assert f"{MAX_DEFINITION_BYTES // 1024} KB" in found[""]


def test_so_many_faults_are_reported() -> None:
    found = validate_definition(
        definition(*(field(f"1-{i}") for i in range(500))), {}, compile_expression, compile_pattern
    )
    assert len(found) == MAX_FAULTS


def test_three_fields_are_indexed_at_most() -> None:
    three = [field(name, indexed=True) for name in "abc"]
    assert faults(definition(*three)) == {}
    detail = field("d", T.MASTER_DETAIL, target="customers")
    assert set(faults(definition(*three, detail), CUSTOMERS)) == {"/fields/3/indexed"}


def test_a_relationship_leads_somewhere() -> None:
    for kind in (T.LOOKUP, T.REFERENCE, T.MASTER_DETAIL):
        found = faults(definition(field("up", kind, target="customers")))
        assert found == {"/fields/0/target": "there is no active collection customers"}
        assert faults(definition(field("up", kind, target="orders"))) == {}


@pytest.mark.parametrize(
    ("settings", "pointers"),
    [
        ({}, set()),
        ({"function": "MAX", "field": "sent"}, set()),
        ({"function": "AVG", "field": "amount"}, set()),
        ({"collection": "none"}, {"collection"}),
        ({"relationship": "none"}, {"relationship"}),
        ({"relationship": "text"}, {"relationship"}),
        ({"relationship": "other_id"}, {"relationship"}),
        ({"relationship": "note_id"}, {"relationship"}),
        ({"field": "amount"}, {"field"}),
        ({"function": "SUM"}, {"field"}),
        ({"function": "SUM", "field": "none"}, {"field"}),
        ({"function": "SUM", "field": "sent"}, {"field"}),
        ({"function": "MIN", "field": "text"}, {"field"}),
        ({"relationship": "x", "function": "SUM"}, {"relationship", "field"}),
    ],
)
def test_a_summary_is_of_details_that_lead_here(
    settings: dict[str, Any], pointers: set[str]
) -> None:
    found = faults(definition(rollup(**settings)), LINES)
    assert set(found) == {f"/fields/0/rollup/{one}" for one in pointers}


def test_what_others_sum_up_is_needed() -> None:
    orders = definition(rollup(function="SUM", field="amount"), field("x"))
    others = {"orders": orders, "customers": CUSTOMERS}
    assert broken_references(LINES, others) == []
    without = definition(*(one for one in LINES.fields if one.name != "amount"), name="lines")
    (fault,) = broken_references(without, others)
    assert fault.pointer == "/fields"
    assert "orders.summary" in fault.problem


def test_a_formula_reads_fields_that_exist() -> None:
    found = faults(definition(field("price", T.CURRENCY), formula("total", "price * quantty")))
    assert found == {"/fields/1/formula": "there is no field quantty"}


@pytest.mark.parametrize("text", ["1 +", "", "NOSUCH(1)", "x" * 5_000, "((((" * 2_000])
def test_a_formula_is_an_expression(text: str) -> None:
    assert set(faults(definition(formula("f", text)))) == {"/fields/0/formula"}


def test_a_formula_reads_its_record_and_the_time_only() -> None:
    assert faults(definition(field("a", T.DATE), formula("f", "DATEDIFF(TODAY(), a)"))) == {}
    for name in ("previous", "ctx", "user", "record"):
        found = faults(definition(formula("f", f"size({name})")))
        assert name in found["/fields/0/formula"]


def test_a_formula_reads_no_secrets_and_no_summaries() -> None:
    secret = definition(field("pin", T.ENCRYPTED), formula("f", "pin + '!'"))
    assert "ENCRYPTED" in faults(secret)["/fields/1/formula"]
    summary = definition(rollup(), formula("f", "summary + 1"))
    assert "ROLLUP_SUMMARY" in faults(summary, LINES)["/fields/1/formula"]


def test_formulas_do_not_read_each_other_in_a_circle() -> None:
    found = faults(definition(formula("a", "b + 1"), formula("b", "c + 1"), formula("c", "a + 1")))
    (problem,) = found.values()
    assert "a → b → c" in problem or "b → c → a" in problem or "c → a → b" in problem
    itself = faults(definition(formula("a", "a + 1")))
    assert itself == {"/fields/0/formula": "the formulas read each other: a → a"}


def test_formulas_are_few() -> None:
    found = faults(definition(*(formula(f"f{i}", "1") for i in range(21))))
    assert set(found) == {"/fields/20/formula"}


def test_formulas_together_cost_as_much_as_one_expression() -> None:
    dear = [formula(f"f{i}", "UPPER(a) + LOWER(a) + TRIM(a)") for i in range(3)]
    assert faults(definition(field("a"), *dear[:2], formula("g", "a + 1"))) == {}
    found = faults(definition(field("a"), *dear, formula("g", "a + 1")))
    assert set(found) == {"/fields/3/formula"}
    assert "could take too long together with the formulas before it" in found["/fields/3/formula"]
    comparing = [formula(f"f{i}", "a == b") for i in range(20)]
    assert faults(definition(field("a"), field("b"), *comparing)) == {}


def test_patterns_are_few() -> None:
    fields = [field(f"f{i}", pattern="a+") for i in range(51)]
    assert faults(definition(*fields[:50], field("x"))) == {}
    assert set(faults(definition(*fields))) == {"/fields/50/pattern"}


def test_summaries_are_few() -> None:
    fields = [
        FieldDefinition(name=f"r{i}", type=T.ROLLUP_SUMMARY, rollup=rollup().rollup)
        for i in range(11)
    ]
    assert faults(definition(*fields[:10]), LINES) == {}
    assert set(faults(definition(*fields), LINES)) == {"/fields/10/rollup"}
