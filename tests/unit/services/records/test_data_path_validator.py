"""Validating data paths: where they lead, or why they do not."""

import pytest

from core.records.collection import CollectionDefinition
from core.records.field import FieldType
from core.records.path_validator import DataPathValidation
from core.shared.errors import InvalidError, NotFoundError
from services.records import collection_reader
from services.records.data_path_validator import DataPathValidator
from tests.unit.core.records.definitions import collection
from tests.unit.services.records.shop_reader import TENANT, ShopReader


async def validate(expression: str) -> DataPathValidation:
    validator = DataPathValidator(ShopReader().collections)
    return await validator.validate(TENANT, "order_lines", expression)


@pytest.mark.parametrize(
    ("expression", "field", "kind", "collection"),
    [
        ("product", "product", FieldType.STRING, "order_lines"),
        ("order_id.total", "total", FieldType.CURRENCY, "orders"),
        ("order_id.customer_id.email", "email", FieldType.EMAIL, "customers"),
        ("order_id.createdAt", "createdAt", None, "orders"),
        ("order_id.SCRIPT[tax].amount", "amount", None, None),
    ],
)
async def test_a_valid_path_has_a_field_at_its_end(
    expression: str, field: str, kind: FieldType | None, collection: str | None
) -> None:
    assert await validate(expression) == DataPathValidation(
        True, None, None, field, kind, collection
    )


@pytest.mark.parametrize(
    ("expression", "segment", "says"),
    [
        ("prodct", 0, "collection order_lines has no field prodct; did you mean product?"),
        ("order_id.customer_id.mail", 2, "collection customers has no field mail; did you mean"),
        ("order_id.total.x", 1, "total of collection orders is of type CURRENCY and cannot be"),
        ("order_id..x", None, "segment 2 is empty"),
        ("", None, "segment 1 is empty"),
        ("a." * 50 + "b", None, "10 hops at most"),
    ],
)
async def test_what_is_wrong_is_named(expression: str, segment: int | None, says: str) -> None:
    found = await validate(expression)
    assert (found.valid, found.error_segment) == (False, segment)
    assert says in str(found.error_message)


async def test_many_at_once_read_each_collection_once() -> None:
    reader = ShopReader()
    validator = DataPathValidator(reader.collections)
    wanted = ["order_id.customer_id.email", "order_id.customer_id.x", "order_id.name", "-", "id"]
    found = await validator.validate_all(TENANT, "order_lines", wanted)
    assert [one.valid for one in found] == [True, False, True, False, True]
    assert reader.reads == [["orders"], ["customers"]]


async def test_an_unknown_root_is_an_error() -> None:
    with pytest.raises(NotFoundError, match="collection nothing does not exist"):
        await DataPathValidator(ShopReader().collections).validate(TENANT, "nothing", "a")


def chain(length: int) -> dict[str, CollectionDefinition]:
    return {f"c{n}": collection(f"c{n}", next=f"c{n + 1}", self=f"c{n}") for n in range(length)}


async def test_the_number_of_collections_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection_reader, "MAX_PATH_COLLECTIONS", 3)
    reader = ShopReader(chain(10))
    validator = DataPathValidator(reader.collections)
    assert (await validator.validate(TENANT, "c0", "next.next.id")).valid
    with pytest.raises(InvalidError, match="paths through 3 collections at most"):
        await validator.validate(TENANT, "c0", "next.next.next.id")
    near = await reader.collections.around(TENANT, "c0", 3)
    assert (list(near.by_name), near.is_complete) == (["c0", "c1", "c2"], True)
    far = await reader.collections.around(TENANT, "c0", 5)
    assert (list(far.by_name), far.is_complete) == (["c0", "c1", "c2"], False)


async def test_what_is_around_ends_where_nothing_leads_on() -> None:
    reader = ShopReader()
    found = await reader.collections.around(TENANT, "customers", 5)
    assert (list(found.by_name), found.is_complete) == (["customers"], True)
    assert list((await reader.collections.around(TENANT, "order_lines", 5)).by_name) == [
        "order_lines", "orders", "customers",
    ]  # fmt: skip
