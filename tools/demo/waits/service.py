"""The fake external service: takes an API call, answers 202, and sends the scripted events."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec
from aiohttp import web

from cli.shell.client import Client
from cli.shell.errors import CommandError
from tools.demo.server import LocalServer
from tools.demo.waits.broker import DemoBroker
from tools.demo.waits.script import TOPIC, ScriptedEvent, Via

_MAX_REQUEST_BYTES = 64 * 1024
_READ_TIMEOUT = 5.0


class ServiceCall(msgspec.Struct, frozen=True, kw_only=True):
    """An API call: the ids to send back, and where to call back."""

    execution_id: str
    correlation_id: str
    callback_url: str | None = msgspec.field(default=None, name="callbackUrl")


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event that the service sent, and Muster's reply."""

    event: ScriptedEvent
    reply: dict[str, Any]

    @property
    def event_id(self) -> str:
        """The id that Muster stores the event under: the sender's id, with the path it took."""
        return str(self.reply.get("eventId"))

    @property
    def verdict(self) -> str:
        return str(self.reply.get("verdict", "error"))


SentEvents = asyncio.Queue[SentEvent]


class ExternalService(LocalServer):
    """Sends the events that were planned for an execution once it is called for it."""

    def __init__(
        self,
        muster: Client,
        anonymous: Client,
        *,
        pace: float = 1.0,
        broker: DemoBroker | None = None,
    ) -> None:
        super().__init__()
        self._producer = muster  # publishes events, with a key
        self._caller = anonymous  # calls back with nothing but the signed URL
        self._pace = pace
        self._broker = broker
        self._plans: dict[str, tuple[Sequence[ScriptedEvent], SentEvents]] = {}

    def plan(self, execution_id: str, events: Sequence[ScriptedEvent]) -> SentEvents:
        """Decide which events follow a call for this execution; they come by the queue."""
        sent = SentEvents()
        self._plans[execution_id] = (events, sent)
        return sent

    def begin(self, call: ServiceCall) -> None:
        """Send the events that were planned for the execution."""
        self.tasks.start(self._send_all(call, *self._plans[call.execution_id]))

    async def deliver(self, call: ServiceCall, event: ScriptedEvent, number: int) -> SentEvent:
        """Send one event and read the verdict."""
        event_id = f"{call.execution_id}-{event.sent_as or number}"
        execution_id = f"{call.execution_id}-other" if event.is_foreign else call.execution_id
        ids = {"execution_id": execution_id, "correlation_id": call.correlation_id}
        try:
            reply = await self._post(call, event, {**event.data, **ids}, {"X-Event-Id": event_id})
        except CommandError as error:
            reply = {"detail": error.sentence, "reason": error.sentence}
        return SentEvent(event, reply or {})

    async def _post(
        self, call: ServiceCall, event: ScriptedEvent, body: dict[str, Any], headers: dict[str, str]
    ) -> Any:
        if event.via is Via.CALLBACK:
            return await self._caller.post(call.callback_url or "", body, headers)
        if event.via is Via.KAFKA:
            path = f"/api/internal/events/{quote(TOPIC, safe='')}"
            return await self._producer.post(path, body, headers)
        if self._broker is None:
            raise CommandError("This scene needs a broker.")
        return await self._broker.produce(TOPIC, call.execution_id, call.correlation_id, body)

    async def _send_all(
        self, call: ServiceCall, events: Sequence[ScriptedEvent], sent: SentEvents
    ) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number, event in enumerate(sorted(events, key=lambda event: event.at), 1):
            await asyncio.sleep(began + event.at * self._pace - loop.time())
            sent.put_nowait(await self.deliver(call, event, number))

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if (request.method, request.path) != ("POST", "/process"):
            return web.Response(status=404)
        if (request.content_length or 0) > _MAX_REQUEST_BYTES:
            return web.Response(status=400)
        try:
            async with asyncio.timeout(_READ_TIMEOUT):
                call = read_call(await request.read())
        except (msgspec.DecodeError, TimeoutError):
            return web.Response(status=400)
        if call.execution_id not in self._plans:
            return web.Response(status=404)
        self.begin(call)
        return web.Response(status=202)


def read_call(body: bytes) -> ServiceCall:
    return msgspec.json.decode(body, type=ServiceCall)
