"""The receiver of the demo: verifies deliveries, and refuses those of the script."""

import base64
import hmac
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from tools.demo.server import LocalServer

_PATH = re.compile(r"/in/([a-z]+)")
OK, REFUSED, BUSY = 200, 400, 429
TOLERANCE = 300.0
"""Seconds that a delivery may be older or newer than the receiver's clock."""
_PREFIX = "whsec_"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoDelivery:
    """A delivery, and how the receiver answered it."""

    subscriber: str
    job_id: str
    body: bytes
    content_type: str
    signed_by: tuple[str, ...]  # the known secrets that verify it
    answered: int
    at: float = field(default_factory=time.monotonic)

    @property
    def data(self) -> dict[str, Any]:
        """The event's data, with or without an envelope."""
        document = orjson.loads(self.body)
        return dict(document["data"]) if self.is_enveloped else dict(document)

    @property
    def is_enveloped(self) -> bool:
        """Whether the data came in an envelope of ids and times."""
        return {"id", "eventId", "data"} <= set(orjson.loads(self.body))

    @property
    def order(self) -> int:
        """The number of the event within its group."""
        return int(self.data["order"])

    @property
    def customer(self) -> str:
        """The message group."""
        return str(self.data["customer"])

    @property
    def is_taken(self) -> bool:
        return self.answered == OK

    def mark(self) -> str:
        """Write the event's number, with a sign if it was not taken."""
        return {OK: "", BUSY: "◌"}.get(self.answered, "✗") + str(self.order)


class DemoReceiver(LocalServer):
    """One server with a path for each subscriber. It knows the secret of each."""

    def __init__(self) -> None:
        super().__init__()
        self.deliveries: list[DemoDelivery] = []
        self.secrets: dict[str, list[str]] = {}
        self.listener: Callable[[DemoDelivery], None] | None = None
        self._poison: set[tuple[str, int]] = set()
        self._busy: dict[str, deque[int]] = {}

    def url_of(self, subscriber: str) -> str:
        return f"{self.url}/in/{subscriber}"

    def poison(self, customer: str, order: int) -> None:
        """Refuse this event from now on, for every subscriber."""
        self._poison.add((customer, order))

    def clear_poison(self) -> None:
        """Take every event from now on."""
        self._poison.clear()

    def refuse_next(self, subscriber: str, retry_after: int) -> None:
        """Answer the next delivery with 429 and this Retry-After."""
        self._busy.setdefault(subscriber, deque()).append(retry_after)

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        path = _PATH.fullmatch(request.path)
        if path is None or request.method != "POST":
            return web.Response(status=404)
        body = await request.read()
        status, headers = self._answer(path[1], body)
        self._record(path[1], request.headers, body, status)
        return web.json_response({"ack": status == OK}, status=status, headers=headers)

    def _answer(self, subscriber: str, body: bytes) -> tuple[int, dict[str, str]]:
        delays = self._busy.get(subscriber)
        if delays:
            return BUSY, {"Retry-After": str(delays.popleft())}
        document = orjson.loads(body)
        data = document.get("data", document)
        poisoned = (data.get("customer"), data.get("order")) in self._poison
        return (REFUSED if poisoned else OK), {}

    def _record(
        self, subscriber: str, headers: Mapping[str, str], body: bytes, status: int
    ) -> None:
        now = time.time()
        delivery = DemoDelivery(
            subscriber=subscriber,
            job_id=headers.get("webhook-id", ""),
            body=body,
            content_type=headers.get("Content-Type", ""),
            signed_by=tuple(
                secret
                for secret in self.secrets.get(subscriber, ())
                if is_signed_by(secret, headers, body, now)
            ),
            answered=status,
        )
        self.deliveries.append(delivery)
        if self.listener is not None:
            self.listener(delivery)
        self.notify()


def is_signed_by(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Return whether a Standard Webhooks signature was made with this secret, not too long ago.

    Written from the specification and not from our signing, so that the demo checks what others
    see.
    """
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not message_id or not timestamp.isdecimal() or abs(now - int(timestamp)) > TOLERANCE:
        return False
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    signed = b".".join([message_id.encode(), timestamp.encode(), body])
    expected = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(one, f"v1,{expected}") for one in given)
