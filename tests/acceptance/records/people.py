"""A collection whose definition tests change."""

from typing import Any

from tests.support.product import Product, new_id

COLLECTIONS = "/control/collections"
NAME: dict[str, Any] = {"name": "name", "type": "STRING"}
AGE: dict[str, Any] = {"name": "age", "type": "INTEGER"}
ANY = {"If-Match": "*"}


class People:
    """A collection, and its records."""

    def __init__(self, product: Product, *fields: dict[str, Any]) -> None:
        self.http = product.http
        self.name = f"c-{new_id()}"
        made = self.http.post(COLLECTIONS, json={"name": self.name, "fields": list(fields)})
        assert made.status_code == 201, made.text
        self.path = f"{COLLECTIONS}/{self.name}"
        self.records = f"/api/collections/{self.name}/records"

    def add(self, **record: Any) -> Any:
        return self.http.post(self.records, json=record)

    def change(self, *fields: dict[str, Any]) -> Any:
        return self.http.patch(self.path, json={"fields": list(fields)}, headers=ANY)

    def preview(self, *fields: dict[str, Any]) -> Any:
        reply = self.http.post(f"{self.path}/preview", json={"fields": list(fields)})
        assert reply.status_code == 200, reply.text
        return reply.json()


def three_people(product: Product) -> People:
    made = People(product, NAME, AGE)
    for number, name in enumerate(("Jo", "Al", "Jo")):
        assert made.add(id=f"p{number}", name=name, age=number).status_code == 201
    return made
