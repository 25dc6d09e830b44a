"""A shop of collections that one tenant defines over HTTP, with records in them."""

from typing import Any

from tests.support.product import Product, new_id

FIELDS: dict[str, list[dict[str, Any]]] = {
    "customers": [
        {"name": "email", "type": "EMAIL"},
        {"name": "name", "type": "STRING"},
        {"name": "token", "type": "ENCRYPTED"},
    ],
    "orders": [
        {"name": "customer_id", "type": "LOOKUP", "target": "customers"},
        {"name": "total", "type": "CURRENCY"},
        {"name": "status", "type": "STRING"},
    ],
    "lines": [
        {"name": "order_id", "type": "LOOKUP", "target": "orders"},
        {"name": "product", "type": "STRING"},
    ],
}


class Shop:
    """Three collections: lines lead to orders, orders to customers. Names are the shop's own."""

    def __init__(self, owner: Product) -> None:
        self.owner = owner
        self._suffix = new_id()[:8].lower()
        self.ids: dict[str, str] = {}
        for name, fields in FIELDS.items():
            own = [
                field | ({"target": self.name(field["target"])} if "target" in field else {})
                for field in fields
            ]
            body = {"name": self.name(name), "fields": own}
            made = owner.http.post("/control/collections", json=body)
            assert made.status_code == 201, made.text
            self.ids[name] = made.json()["id"]

    def name(self, collection: str) -> str:
        return f"{collection}-{self._suffix}"

    def put(self, collection: str, record_id: str, **fields: Any) -> None:
        path = f"/api/collections/{self.name(collection)}/records"
        made = self.owner.http.post(path, json={"id": record_id, **fields})
        assert made.status_code == 201, made.text

    def fill(self) -> None:
        """Store a line that leads to a customer, and one that leads nowhere."""
        self.put("customers", "c1", email="jo@example.com", name="Jo", token="sealed")
        self.put("orders", "o1", customer_id="c1", total=10, status="new")
        path = f"/api/collections/{self.name('orders')}/records/o1"
        for change in ({"total": 60}, {"status": "open"}):
            changed = self.owner.http.patch(path, json=change)
            assert changed.status_code == 200, changed.text
        self.put("lines", "l1", order_id="o1", product="tea")
        self.put("lines", "l2", order_id=None)
