"""Collections of a shop, for tests."""

from typing import Any

from core.records.collection import CollectionDefinition, Collections
from core.records.field import FieldDefinition, FieldType


def collection(name: str, /, **fields: FieldType | str) -> CollectionDefinition:
    """A type for each field, or the name of the collection that a LOOKUP leads to."""
    return CollectionDefinition(
        name=name,
        fields=tuple(
            FieldDefinition(name=field, type=kind)
            if isinstance(kind, FieldType)
            else FieldDefinition(name=field, type=FieldType.LOOKUP, target=kind)
            for field, kind in fields.items()
        ),
    )


SHOP: Collections = {
    one.name: one
    for one in (
        collection("order_lines", order_id="orders", product=FieldType.STRING, seller_id="sellers"),
        collection(
            "orders", customer_id="customers", total=FieldType.CURRENCY, name=FieldType.STRING
        ),
        collection(
            "customers", email=FieldType.EMAIL, name=FieldType.STRING, referrer_id="customers"
        ),
    )
}
LINE: dict[str, Any] = {"id": "l1", "order_id": "o1", "product": "pen", "seller_id": None}
RECORDS: dict[tuple[str, str], dict[str, Any]] = {
    ("orders", "o1"): {"id": "o1", "customer_id": "c1", "total": 12.5, "name": "first"},
    ("customers", "c1"): {"id": "c1", "email": "jo@example.com", "referrer_id": "c1"},
}
