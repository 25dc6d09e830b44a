"""The receiver of the demo: a real server that verifies what comes, and answers as it is told."""

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from tools.demo.dispatch.verify import is_signed_by

_LOOPBACK = "127.0.0.1"
_PATH = re.compile(r"/in/([a-z]+)")
_SHUTDOWN = 0.2
OK, REFUSED, BUSY = 200, 400, 429


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoDelivery:
    """A delivery that came, and how it was answered."""

    subscriber: str
    job_id: str
    body: bytes
    content_type: str
    signed_by: tuple[str, ...]  # the secrets that verify it, of those that the receiver knows
    answered: int
    at: float = field(default_factory=time.monotonic)

    @property
    def data(self) -> dict[str, Any]:
        """The event's data, in an envelope or alone."""
        document = orjson.loads(self.body)
        return dict(document["data"]) if self.is_enveloped else dict(document)

    @property
    def is_enveloped(self) -> bool:
        """Whether the data came with ids and times around it."""
        return {"id", "eventId", "data"} <= set(orjson.loads(self.body))

    @property
    def order(self) -> int:
        """Which event it is, within its group."""
        return int(self.data["order"])

    @property
    def customer(self) -> str:
        """The group it belongs to."""
        return str(self.data["customer"])

    @property
    def is_taken(self) -> bool:
        """Whether it was answered with a yes."""
        return self.answered == OK

    def mark(self) -> str:
        """Its number, with what became of it."""
        return {OK: "", BUSY: "◌"}.get(self.answered, "✗") + str(self.order)


class DemoReceiver:
    """One server on this machine, with a path for each subscriber.

    It knows the secrets that each was given, takes what comes, and refuses what it was told to.
    """

    def __init__(self) -> None:
        self.deliveries: list[DemoDelivery] = []
        self.secrets: dict[str, list[str]] = {}
        self.listener: Callable[[DemoDelivery], None] | None = None
        self._poison: set[tuple[str, int]] = set()
        self._busy: dict[str, deque[int]] = {}
        self._news = asyncio.Event()
        self._runner: web.ServerRunner | None = None
        self._port = 0

    async def __aenter__(self) -> "DemoReceiver":
        server = web.Server(self._serve, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN)
        await self._runner.setup()
        await web.TCPSite(self._runner, _LOOPBACK, 0).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{_LOOPBACK}:{self._port}"

    def url_of(self, subscriber: str) -> str:
        """The address of one subscriber."""
        return f"{self.url}/in/{subscriber}"

    def poison(self, customer: str, order: int) -> None:
        """From now on this event is refused by everybody, for good."""
        self._poison.add((customer, order))

    def clear_poison(self) -> None:
        """From now on everything is taken."""
        self._poison.clear()

    def refuse_next(self, subscriber: str, retry_after: int) -> None:
        """The next delivery is asked to come back after so many seconds."""
        self._busy.setdefault(subscriber, deque()).append(retry_after)

    async def until(self, check: Callable[[], Any], within: float) -> Any:
        """Wait until `check` finds something true in what has arrived."""
        async with asyncio.timeout(within):
            while not (found := check()):
                await self._news.wait()
        return found

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        place = _PATH.fullmatch(request.path)
        if place is None or request.method != "POST":
            return web.Response(status=404)
        body = await request.read()
        status, headers = self._answer(place[1], body)
        self._take(place[1], request.headers, body, status)
        return web.json_response({"ack": status == OK}, status=status, headers=headers)

    def _answer(self, subscriber: str, body: bytes) -> tuple[int, dict[str, str]]:
        waiting = self._busy.get(subscriber)
        if waiting:
            return BUSY, {"Retry-After": str(waiting.popleft())}
        document = orjson.loads(body)
        data = document.get("data", document)
        poisoned = (data.get("customer"), data.get("order")) in self._poison
        return (REFUSED if poisoned else OK), {}

    def _take(self, subscriber: str, headers: Mapping[str, str], body: bytes, status: int) -> None:
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
        self._news.set()
        self._news = asyncio.Event()
