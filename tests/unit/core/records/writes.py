"""Collections, messages and ids for tests of record writes."""

import re
from collections.abc import Callable
from itertools import count
from typing import Any

from core.expressions.compiler import compile_tree
from core.records.collection import CollectionDefinition, assign_slots
from core.records.field import FieldDefinition, FieldType
from core.records.messages import RecordWrite, SaveRecord
from core.records.record import Collection, RecordAddress
from core.records.record_schema import RecordSchema, compile_collection
from handlers.filters.parser import parse_expression

TENANT, ORDERS, LINES = 7, 1, 2
NOW = 1_700_000_000.0
T = FieldType


def define(name: str, *fields: FieldDefinition, version: int = 1) -> CollectionDefinition:
    return CollectionDefinition(
        name=name, fields=fields, version=version, slots=assign_slots(fields)
    )


def a_field(name: str, type_: FieldType, **settings: Any) -> FieldDefinition:
    return FieldDefinition(name=name, type=type_, **settings)


ORDER = define(
    "orders",
    a_field("name", T.STRING, required=True, pattern="[A-Za-z ]+"),
    a_field("code", T.EXTERNAL_ID, unique=True, indexed=True),
    a_field("status", T.PICKLIST, values=("open", "paid"), default="open", indexed=True),
    a_field("total", T.CURRENCY, min=0),
    a_field("pieces", T.INTEGER),
    a_field("price", T.FORMULA, formula="total / pieces"),
    a_field("rounded", T.FORMULA, formula="ROUND(price, 0)"),
    a_field("number", T.AUTO_NUMBER, format="O-{000}"),
    a_field("card", T.ENCRYPTED),
    a_field("more", T.JSON),
)
LINE = define("order-lines", a_field("order", T.MASTER_DETAIL, target="orders", required=True))


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def schema(definition: CollectionDefinition = ORDER, collection_no: int = ORDERS) -> RecordSchema:
    return compile_collection(
        collection_no,
        definition,
        lambda text: compile_tree(parse_expression(text), compile_pattern),
        compile_pattern,
    )


def a_collection(
    definition: CollectionDefinition, number: int, *, is_active: bool = True
) -> Collection:
    return Collection(
        tenant=TENANT,
        collection_no=number,
        collection_id=f"col_{number}",
        definition=definition,
        is_active=is_active,
    )


def schema_of(collection: Collection) -> RecordSchema:
    return schema(collection.definition, collection.collection_no)


def a_save(
    write: RecordWrite, record_id: str = "o1", /, collection_no: int = ORDERS, **more: Any
) -> SaveRecord:
    return SaveRecord(
        address=RecordAddress(TENANT, collection_no, record_id),
        turn_id=more.pop("turn_id", "t1"),
        write=write,
        definition_version=more.pop("definition_version", 1),
        **more,
    )


def ids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"id{next(numbers)}"
