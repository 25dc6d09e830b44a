"""Resources for the demo: take a call, accept or refuse it, and call back when it is time."""

import asyncio
import random
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import orjson
from aiohttp import web

from tools.demo.gathers.behaviour import Behaviour, behaviour_of, direct_behaviour_of
from tools.demo.gathers.call_log import Callback, ResourceCall
from tools.demo.gathers.notes import make_notes
from tools.demo.gathers.sender import CallbackSender

_LOOPBACK = "127.0.0.1"
_PATH = re.compile(r"/(resource-(\d{1,6}))/journals(/direct)?")
_BACKLOG = 4096
_MAX_RECORDS = 20_000  # of each kind
_SHUTDOWN = 0.2


RecordListener = Callable[[ResourceCall | Callback], None]


class DemoResources:
    """One server on this machine that plays `resource-1`, `resource-2` and so on.

    A resource does what the delay of a call says, or what `behave` says of it. `calls` and
    `callbacks` keep the last of both; `tell` hears of each the moment it happens.
    """

    def __init__(
        self, *, port: int = 0, seed: int | None = None, listener: RecordListener | None = None
    ) -> None:
        self.calls: deque[ResourceCall] = deque(maxlen=_MAX_RECORDS)
        self.callbacks: deque[Callback] = deque(maxlen=_MAX_RECORDS)
        self.listener = listener
        self._port = port
        self._chance = random.Random(seed)  # noqa: S311 - for the notes' texts
        self._behaviours: dict[str, tuple[Behaviour, int]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._news = asyncio.Event()
        self._runner: web.ServerRunner | None = None
        self._sender = CallbackSender()

    async def __aenter__(self) -> "DemoResources":
        server = web.Server(self._serve, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN)
        await self._runner.setup()
        await web.TCPSite(self._runner, _LOOPBACK, self._port, backlog=_BACKLOG).start()
        self._port = self._runner.addresses[0][1]
        await self._sender.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._sender.close()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{_LOOPBACK}:{self._port}"

    def url_of(self, number: int) -> str:
        """The address of one resource, as Muster is told it."""
        return f"{self.url}/resource-{number}/journals"

    def behave(self, number: int, behaviour: Behaviour | None, *, delay_ms: int = 0) -> None:
        """Decide what a resource does; with None the delay of each call decides again.

        `delay_ms` is for calls that name no delay of their own, or one that no clock can keep.
        """
        if behaviour is None:
            self._behaviours.pop(f"resource-{number}", None)
        else:
            self._behaviours[f"resource-{number}"] = (behaviour, delay_ms)

    async def until(self, check: Callable[["DemoResources"], Any], within: float = 30.0) -> Any:
        """Wait until `check` finds something true in the records."""
        async with asyncio.timeout(within):
            while not (found := check(self)):
                await self._news.wait()
        return found

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        place = _PATH.fullmatch(request.path)
        if place is None:
            return web.Response(status=404)
        if request.method != "POST":
            return web.Response(status=405, headers={"Allow": "POST"})
        try:
            call = await _read(request, resource=place[1], direct=place[3] is not None)
            behaviour, delay = self._plan(call)
        except ValueError as error:
            return web.Response(status=400, text=str(error))
        self._remember(self.calls, call)
        return await self._take(request, call, behaviour, delay)

    def _plan(self, call: ResourceCall) -> tuple[Behaviour, float]:
        """What to do with a call, and after how many seconds."""
        asked = call.delay
        told = self._behaviours.get(call.resource)
        if told is not None:
            behaviour, usual = told
            return behaviour, (usual if asked is None or asked < 0 else asked) / 1000
        read = direct_behaviour_of if call.direct else behaviour_of
        return read(asked or 0), max(asked or 0, 0) / 1000

    async def _take(
        self, request: web.BaseRequest, call: ResourceCall, behaviour: Behaviour, delay: float
    ) -> web.StreamResponse:
        match behaviour:
            case Behaviour.ERROR:
                return web.Response(status=500)
            case Behaviour.CLOSE:
                if request.transport is not None:
                    request.transport.close()
                return web.Response(status=500)  # reaches nobody
            case Behaviour.HANG:
                await self._as_ours(call, asyncio.Event().wait())
            case Behaviour.REJECT if not call.direct:
                return web.Response(status=401)
        if call.direct:
            return await self._answer_directly(call, behaviour, delay)
        if behaviour is not Behaviour.SILENT:
            self._begin(self._call_back(call, delay, 2 if behaviour is Behaviour.TWICE else 1))
        return web.Response()

    async def _answer_directly(
        self, call: ResourceCall, behaviour: Behaviour, delay: float
    ) -> web.StreamResponse:
        if behaviour is Behaviour.REJECT:
            answer = self._answer(call, 0) | {
                "status": "REJECTED",
                "notes": None,
                "correlationId": None,
            }
        else:
            silent = behaviour is Behaviour.SILENT
            pause = asyncio.Event().wait() if silent else asyncio.sleep(delay)
            await self._as_ours(call, pause)
            answer = self._answer(call, delay)
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    async def _as_ours(self, call: ResourceCall, pause: Awaitable[Any]) -> None:
        """Wait inside a call, so that neither a caller that leaves nor our end is forgotten."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a call is always served by a task")
        self._tasks.add(task)
        try:
            await pause
        except asyncio.CancelledError:
            call.abandoned = True
            self._notify(call)
            raise
        finally:
            self._tasks.discard(task)

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call_back(self, call: ResourceCall, delay: float, times: int) -> None:
        await asyncio.sleep(delay)
        url, answer = call.body.get("callbackUrl"), self._answer(call, delay)
        for _ in range(times if url else 0):
            sent_at = time.monotonic()
            status, reply = await self._sender.post(str(url), answer)
            callback = Callback(
                resource=call.resource,
                correlation_id=call.body.get("correlationId"),
                body=answer,
                sent_at=sent_at,
                status=status,
                reply=reply,
            )
            self._remember(self.callbacks, callback)

    def _answer(self, call: ResourceCall, delay: float) -> dict[str, Any]:
        # The seed's dates are local and have no zone.
        now = datetime.now().astimezone()
        return {
            "source": call.source,
            "patientId": call.patient_id,
            "correlationId": call.body.get("correlationId"),
            "delayMs": round(delay * 1000) if call.delay is None else call.delay,
            "status": "ok",
            "notes": make_notes(call.source, call.patient_id, self._chance, now),
        }

    def _remember(self, records: deque[Any], record: ResourceCall | Callback) -> None:
        records.append(record)
        self._notify(record)

    def _notify(self, record: ResourceCall | Callback) -> None:
        if self.listener is not None:
            self.listener(record)
        self._news.set()
        self._news = asyncio.Event()


async def _read(request: web.BaseRequest, *, resource: str, direct: bool) -> ResourceCall:
    body = orjson.loads(await request.read())
    if type(body) is not dict:
        raise ValueError("a call is a JSON object")
    return ResourceCall(resource=resource, direct=direct, body=body, headers=request.headers)
