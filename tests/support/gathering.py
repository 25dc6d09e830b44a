"""Gathers as their callers have them: begun over HTTP, followed event by event."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.product import Product, new_id
from tools.demo.gathers.calls import Behaviour, Callback, ResourceCall
from tools.demo.gathers.resource import DemoResources

JOURNALS = ("resource-1", "resource-2", "resource-3")
# Those are for journals; tests that need a resource of their own take the next.
_numbers = itertools.count(len(JOURNALS) + 1)


@dataclass(frozen=True)
class StreamEvent:
    """One event of a stream."""

    id: int
    event: str
    data: dict[str, Any]

    @property
    def outcome(self) -> tuple[str, str, str]:
        """Its kind, whom it is about and how that one answered."""
        return self.event, self.data["source"], self.data["status"]


@dataclass
class GatherClient:
    """A tenant with resources of its own, and a client of its key."""

    product: Product
    http: httpx.AsyncClient = field(repr=False)
    browser: httpx.AsyncClient = field(repr=False)
    resources: DemoResources = field(repr=False)

    def with_key(self, key: str | None) -> httpx.AsyncClient:
        """A client of the same instance with another key, or with none."""
        return client(self.product.url, key)

    async def register(self, behaviour: Behaviour | None = None, **fields: Any) -> str:
        """Register a resource that nobody else uses; its name."""
        number = next(_numbers)
        name = f"resource-{number}"
        self.resources.behave(number, behaviour)
        place = "/direct" if fields.get("reply") == "direct" else ""
        await self.put(name, url=self.resources.url_of(number) + place, **fields)
        return name

    async def put(self, name: str, **fields: Any) -> dict[str, Any]:
        """Register or change a resource; its document."""
        return _document(await self.http.put(f"/api/resources/{name}", json=fields), 200, 201)

    def inline(self, behaviour: Behaviour | None = None, **fields: Any) -> dict[str, Any]:
        """A resource to send along: it answers directly, as it is told to."""
        number = next(_numbers)
        self.resources.behave(number, behaviour)
        return {
            "name": f"inline-{number}",
            "url": f"{self.resources.url_of(number)}/direct",
            **fields,
        }

    async def journals(self, delays: Any, **fields: Any) -> dict[str, Any]:
        """Ask for journals; what the interface answers."""
        asked = {"patientId": f"patient-{new_id()}", "delays": delays, **fields}
        return _document(await self.http.post("/aggregate/journals", json=asked), 200)

    async def everyone(self, delays: Any, **fields: Any) -> dict[str, Any]:
        """Ask for journals and wait for all of them."""
        return await self.journals(delays, strategy="WAIT_FOR_EVERYONE", **fields)

    async def gather(self, *resources: Any, **fields: Any) -> dict[str, Any]:
        """Begin a gather, or with mode `wait` have it done; its document."""
        asked = {"resources": list(resources), **fields}
        return _document(await self.http.post("/api/gathers", json=asked), 200, 202)

    async def show(self, gather_id: str) -> dict[str, Any]:
        """A gather as it stands."""
        return _document(await self.http.get(f"/api/gathers/{gather_id}"), 200)

    async def log(self, gather_id: str) -> list[dict[str, Any]]:
        """Everything that was ever said to a gather."""
        path = f"/api/wait-states/{gather_id}/{gather_id}/log"
        items: list[dict[str, Any]] = _document(await self.http.get(path), 200)["items"]
        return items

    async def read(self, begun: dict[str, Any], after: int | None = None) -> list[StreamEvent]:
        """The whole stream of a gather, or what comes after an id."""
        async with self.stream(begun, after) as events:
            return [told async for told in events]

    @asynccontextmanager
    async def stream(
        self, begun: dict[str, Any], after: int | None = None
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Follow a gather as a browser does: by the URL alone; leaving hangs up."""
        url = begun["streamUrl"]
        async with self.browser.stream("GET", url, headers=last_event_id_header(after)) as reply:
            reply.raise_for_status()
            assert reply.status_code == 200
            yield read_events(reply.aiter_lines())

    def calls(self, gather_id: str) -> list[ResourceCall]:
        """The calls that resources got for a gather."""
        return [c for c in self.resources.calls if c.headers["X-Correlation-Id"] == gather_id]

    def callbacks(self, gather_id: str) -> list[Callback]:
        """The callbacks that resources sent for a gather, and how they were answered."""
        return [c for c in self.resources.callbacks if c.correlation_id == gather_id]

    async def called(self, gather_id: str, times: int = 1) -> list[ResourceCall]:
        """Wait until so many calls have come."""
        await until(f"{times} calls", lambda: len(self.calls(gather_id)) >= times)
        return self.calls(gather_id)

    async def called_back(self, gather_id: str, times: int) -> list[Callback]:
        """Wait until so many callbacks were answered."""
        await until(f"{times} callbacks", lambda: len(self.callbacks(gather_id)) >= times)
        return self.callbacks(gather_id)

    async def ended(self, gather_id: str) -> dict[str, Any]:
        """Wait for a gather's end; its document then."""

        async def look() -> dict[str, Any] | None:
            shown = await self.show(gather_id)
            return None if shown["status"] == "waiting" else shown

        document: dict[str, Any] = await until("the end", look)
        return document


@asynccontextmanager
async def gather_client_of(product: Product) -> AsyncIterator[GatherClient]:
    """Play resources, and register those of the journals for the product's tenant."""
    async with (
        DemoResources() as resources,
        client(product.url, product.key) as http,
        client(product.url, None) as browser,
    ):
        made = GatherClient(product, http, browser, resources)
        for number, name in enumerate(JOURNALS, 1):
            await made.put(name, url=resources.url_of(number))
        yield made


def client(url: str, key: str | None) -> httpx.AsyncClient:
    """A client with this key, or with none; it holds as many connections as it needs."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
    return httpx.AsyncClient(
        base_url=url,
        headers=headers,
        timeout=60,
        trust_env=False,
        limits=limits,
        verify=False,  # nothing here is encrypted, and to load certificates takes a while
    )


def last_event_id_header(after: int | None) -> dict[str, str]:
    """The header that tells what was seen already."""
    return {} if after is None else {"Last-Event-ID": str(after)}


async def read_events(lines: AsyncIterator[str]) -> AsyncIterator[StreamEvent]:
    """The events on a stream; comments and `retry` are not among them."""
    fields: dict[str, str] = {}
    async for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        elif "data" in fields:
            yield StreamEvent(int(fields["id"]), fields["event"], json.loads(fields["data"]))
            fields = {}


async def until(
    what: str, check: Callable[[], Any], within: float = 30.0, every: float = 0.02
) -> Any:
    """Poll until `check` gives something true; say what was missing if it never does."""
    try:
        async with asyncio.timeout(within):
            while True:
                found = check()
                if isinstance(found, Awaitable):
                    found = await found
                if found:
                    return found
                await asyncio.sleep(every)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {within:g} s") from None


def _document(reply: httpx.Response, *statuses: int) -> dict[str, Any]:
    assert reply.status_code in statuses, f"{reply.status_code} {reply.text}"
    document: dict[str, Any] = reply.json()
    return document
