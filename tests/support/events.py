"""Events as they are posted over HTTP."""

from typing import Any

import httpx

from tests.support.product import Product

EVENTS, BATCH = "/api/events", "/api/events/batch"


def post(product: Product, **event: Any) -> httpx.Response:
    """Post one; the answer."""
    body = {"type": "order.created", "source": "shop", **event}
    return product.http.post(EVENTS, json=body)


def created(reply: httpx.Response) -> dict[str, Any]:
    """What was stored, once it is known to be new."""
    assert reply.status_code == 201, reply.text
    document: dict[str, Any] = reply.json()
    return document
