"""Payloads of named data paths."""

from core.records.data_path import parse_data_path
from services.records.data_payload_builder import DataPayloadBuilder, DataPayloadField
from tests.unit.core.records.definitions import LINE
from tests.unit.services.records.shop_reader import TENANT, ShopReader


def field(name: str, path: str) -> DataPayloadField:
    return DataPayloadField(name, parse_data_path(path))


async def test_a_payload_is_built_of_many_paths_with_one_query() -> None:
    reader = ShopReader()
    fields = [
        field("customerEmail", "order_id.customer_id.email"),
        field("orderTotal", "order_id.total"),
        field("product", "product"),
        field("seller", "seller_id"),
        field("customerName", "order_id.customer_id.name"),
    ]
    builder = DataPayloadBuilder(reader.resolver)
    assert await builder.build(TENANT, "order_lines", fields, LINE) == {
        "customerEmail": "jo@example.com",
        "orderTotal": 12.5,
        "product": "pen",
        "seller": None,
        "customerName": None,
    }
    assert len(reader.queries) == 1


async def test_two_names_may_have_one_path() -> None:
    fields = [field("a", "order_id.total"), field("b", " order_id . total ")]
    found = await DataPayloadBuilder(ShopReader().resolver).build(
        TENANT, "order_lines", fields, LINE
    )
    assert found == {"a": 12.5, "b": 12.5}
