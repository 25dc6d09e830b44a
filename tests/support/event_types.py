"""Event types and schemas to test with, made over HTTP."""

from typing import Any

from tests.support.product import Product, new_id

TYPES, SCHEMAS = "/api/event-types", "/api/schemas"
ORDER = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
XSD = (
    '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'
    '<xs:element name="order" type="xs:string"/></xs:schema>'
)
PROTO = 'syntax = "proto3";\nmessage Order { string id = 1; }\n'


def new_code(application: str = "shop") -> str:
    """A code that nobody has used."""
    return f"{application}:s{new_id()[:12]}:order:created"


def create(product: Product, code: str | None = None, **more: Any) -> dict[str, Any]:
    """A new type; its document."""
    body = {"code": code or new_code(), "name": "Order created", **more}
    reply = product.http.post(TYPES, json=body)
    assert reply.status_code == 201, reply.text
    document: dict[str, Any] = reply.json()
    return document


def add(product: Product, code: str, version: str = "1.0", **more: Any) -> dict[str, Any]:
    """Give a type a version; its document then."""
    body = {"version": version, **(more or {"schema": ORDER})}
    reply = product.http.post(f"{TYPES}/{code}/schemas", json=body)
    assert reply.status_code == 201, reply.text
    document: dict[str, Any] = reply.json()
    return document


def statuses(document: dict[str, Any]) -> dict[str, str]:
    """The status of each version."""
    return {one["version"]: one["status"] for one in document["specVersions"]}


def keep(product: Product, **more: Any) -> dict[str, Any]:
    """A schema by itself; its document."""
    body = {"name": "order", "content": ORDER, **more}
    reply = product.http.post(SCHEMAS, json=body)
    assert reply.status_code == 201, reply.text
    document: dict[str, Any] = reply.json()
    return document
