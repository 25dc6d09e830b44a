"""Data paths against the definitions of collections."""

import pytest

from core.records.data_path import DataPath, parse_data_path
from core.records.field import FieldType
from core.records.path_validator import DataPathValidation, validate_data_path
from tests.unit.core.records.definitions import SHOP


def validate(expression: str, root: str = "order_lines") -> DataPathValidation:
    return validate_data_path(parse_data_path(expression), root, SHOP)


@pytest.mark.parametrize(
    ("expression", "field", "kind", "collection"),
    [
        ("product", "product", FieldType.STRING, "order_lines"),
        ("order_id", "order_id", FieldType.LOOKUP, "order_lines"),
        ("order_id.total", "total", FieldType.CURRENCY, "orders"),
        ("order_id.customer_id.email", "email", FieldType.EMAIL, "customers"),
        (
            "order_id.customer_id.referrer_id.referrer_id.name",
            "name",
            FieldType.STRING,
            "customers",
        ),
        ("order_id.createdAt", "createdAt", None, "orders"),
        ("order_id.SCRIPT[tax].amount", "amount", None, None),
        ("order_id.SCRIPT[tax].result.amount", "amount", None, None),
    ],
)
def test_a_path_that_leads_somewhere(
    expression: str, field: str, kind: FieldType | None, collection: str | None
) -> None:
    assert validate(expression) == DataPathValidation(True, None, None, field, kind, collection)


@pytest.mark.parametrize(
    ("expression", "segment", "says"),
    [
        ("prodct", 0, "collection order_lines has no field prodct; did you mean product?"),
        ("order_id.customer.email", 1, "collection orders has no field customer; did you mean"),
        ("order_id.zzz", 1, "collection orders has no field zzz"),
        ("product.name", 0, "product of collection order_lines is of type STRING and cannot be"),
        ("createdAt.name", 0, "collection order_lines has no field createdAt"),
        ("seller_id.name", 0, "seller_id of collection order_lines leads to sellers, which is"),
        ("order_id.name.SCRIPT[tax].amount", 1, "name of collection orders is of type STRING"),
    ],
)
def test_a_path_that_leads_nowhere_names_segment_and_collection(
    expression: str, segment: int, says: str
) -> None:
    found = validate(expression)
    assert (found.valid, found.error_segment) == (False, segment)
    assert str(found.error_message).startswith(says)


def test_a_root_that_is_not_there() -> None:
    found = validate("total", "order")
    assert found.error_message == "there is no collection order; did you mean orders?"


def test_a_path_without_a_terminal_is_a_fault() -> None:
    hops = DataPath(parse_data_path("order_id.customer_id.email").relationships)
    with pytest.raises(ValueError, match="without a terminal"):
        validate_data_path(hops, "order_lines", SHOP)
