"""The fake external service: takes an API call, answers 202, and calls back when it likes."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from cli.shell.client import Client
from cli.shell.errors import CommandError
from tools.demo.waits.broker import DemoBroker
from tools.demo.waits.scene import TOPIC, ScriptedEvent, Via

_LOOPBACK = "127.0.0.1"
_MAX_REQUEST_BYTES = 64 * 1024
_READ_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCall:
    """What the service was told: the ids to send back, and where to call back."""

    execution_id: str
    correlation_id: str
    callback_url: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event that the service sent, and Muster's answer to it."""

    arrival: ScriptedEvent
    reply: dict[str, Any]

    @property
    def event_id(self) -> str:
        """The id that Muster keeps the event under: the sender's own, with the path it came by."""
        return str(self.reply.get("eventId"))

    @property
    def verdict(self) -> str:
        """Muster's verdict, or `error` if there was none."""
        return str(self.reply.get("verdict", "error"))


class ExternalService:
    """Listens on a free port of this machine and plays the arrivals it was given for a call."""

    def __init__(
        self,
        muster: Client,
        anonymous: Client,
        *,
        pace: float = 1.0,
        broker: DemoBroker | None = None,
    ) -> None:
        self._producer = muster  # publishes events, with a key
        self._caller = anonymous  # calls back with nothing but the signed URL
        self._pace = pace
        self._broker = broker
        self._plans: dict[str, tuple[Sequence[ScriptedEvent], Callable[[SentEvent], None]]] = {}
        self._acts: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "ExternalService":
        self._server = await asyncio.start_server(
            self._serve, _LOOPBACK, 0, limit=_MAX_REQUEST_BYTES
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        for act in self._acts:
            act.cancel()
        await asyncio.gather(*self._acts, return_exceptions=True)
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    @property
    def url(self) -> str:
        """Where it listens."""
        if self._server is None:
            raise RuntimeError("the service has not been started")
        return f"http://{_LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"

    def plan(
        self,
        execution_id: str,
        arrivals: Sequence[ScriptedEvent],
        listener: Callable[[SentEvent], None],
    ) -> None:
        """What to do when this execution calls."""
        self._plans[execution_id] = (arrivals, listener)

    def begin(self, call: ServiceCall) -> None:
        """Start what was planned for an execution, without being called."""
        arrivals, listener = self._plans[call.execution_id]
        act = asyncio.create_task(self._act(call, arrivals, listener))
        self._acts.add(act)
        act.add_done_callback(self._acts.discard)

    async def deliver(self, call: ServiceCall, arrival: ScriptedEvent, number: int) -> SentEvent:
        """Send one event and read the verdict."""
        event_id = f"{call.execution_id}-{arrival.sent_as or number}"
        execution_id = f"{call.execution_id}-other" if arrival.is_foreign else call.execution_id
        body = {
            **arrival.data,
            "execution_id": execution_id,
            "correlation_id": call.correlation_id,
        }
        try:
            reply = await self._post(call, arrival, body, {"X-Event-Id": event_id})
        except CommandError as error:
            reply = {"detail": error.sentence, "reason": error.sentence}
        return SentEvent(arrival, reply)

    async def _post(
        self,
        call: ServiceCall,
        arrival: ScriptedEvent,
        body: dict[str, Any],
        headers: dict[str, str],
    ) -> dict[str, Any]:
        if arrival.via is Via.TOPIC:
            if self._broker is None:
                raise CommandError("This scene needs a broker.")
            return await self._broker.produce(TOPIC, call.execution_id, call.correlation_id, body)
        if arrival.via is Via.KAFKA:
            path = f"/api/internal/events/{quote(TOPIC, safe='')}"
            reply = await self._producer.post(path, body, headers)
        else:
            reply = await self._caller.post(call.callback_url or "", body, headers)
        return reply if isinstance(reply, dict) else {}

    async def _act(
        self,
        call: ServiceCall,
        arrivals: Sequence[ScriptedEvent],
        listener: Callable[[SentEvent], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number, arrival in enumerate(sorted(arrivals, key=lambda arrival: arrival.at), 1):
            await asyncio.sleep(began + arrival.at * self._pace - loop.time())
            listener(await self.deliver(call, arrival, number))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_READ_TIMEOUT):
                call = read_call(*await _read_request(reader))
            status = (
                "202 Accepted" if call and call.execution_id in self._plans else "404 Not Found"
            )
            if call and call.execution_id in self._plans:
                self.begin(call)
        except (ValueError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            status = "400 Bad Request"
        head = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        await writer.drain()
        writer.close()


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lines = head.split("\r\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines[1:])
    }
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= _MAX_REQUEST_BYTES:
        raise ValueError("too much to read")
    return lines[0], await reader.readexactly(length)


def read_call(request_line: str, body: bytes) -> ServiceCall | None:
    """The call, or None if it is something else."""
    if request_line.split(" ")[:2] != ["POST", "/process"]:
        return None
    document = json.loads(body)
    if not isinstance(document, dict) or not {"execution_id", "correlation_id"} <= set(document):
        raise ValueError("the ids are missing")
    return ServiceCall(
        execution_id=str(document["execution_id"]),
        correlation_id=str(document["correlation_id"]),
        callback_url=document.get("callbackUrl"),
    )
