"""Keys of one tenant's triggers, as another meets them."""

from collections.abc import Callable
from typing import Any, Protocol

from tests.support.product import Product

PREVIEW = "/control/idempotency/preview"


class OwnedTriggers(Protocol):
    """Whatever else they have, somebody owns it."""

    @property
    def owner(self) -> Product: ...


def _has_other_keys(other: Product, theirs: OwnedTriggers) -> None:
    """The same event of the same trigger is a duplicate within one tenant only."""
    settings = {"strategy": "EVENT_BASED", "includeEventId": True}
    body = {"settings": settings, "events": [{"eventId": "e1"}]}
    mine, yours, again = (
        one.http.post(PREVIEW, json=body).json()["items"][0]["keys"][0]
        for one in (other, theirs.owner, theirs.owner)
    )
    assert yours["hash"] == again["hash"]
    assert mine["key"] == yours["key"]
    assert mine["hash"] != yours["hash"]


IDEMPOTENCY_ISOLATION: dict[str, Callable[[Product, Any], None]] = {
    "previewIdempotency": _has_other_keys,
}
