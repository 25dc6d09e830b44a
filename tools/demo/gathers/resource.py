"""The fake resources of the demo: accept or refuse a call, and call back after a delay."""

import asyncio
import random
import re
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, Self

import aiohttp
import orjson
from aiohttp import web

from tools.demo.gathers import calls
from tools.demo.gathers.calls import Behaviour, Callback, ResourceCall
from tools.demo.server import LocalServer

_PATH = re.compile(r"/(resource-(\d{1,6}))/journals(/direct)?")
_MAX_RECORDS = 20_000  # of each kind
_MAX_CONNECTIONS = 200
# Shorter than servers keep an idle connection, so that none breaks just when it is used.
_IDLE = 2.0
_PAUSES = (0, 0.2, 0.4, 0.8)  # seconds before each try
_RETRIED = frozenset({None, 429, 503})
_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5)
_MAX_REPLY_BYTES = 64 * 1024
_HEADERS = {"Content-Type": "application/json", "User-Agent": "muster-demo-resource"}

NOTES_PER_ANSWER = 3
_YEAR = int(timedelta(days=365).total_seconds())
_DOCTORS = 20
_TEXTS = (
    "Blood pressure within the normal range. Next visit in a year.",
    "Complains of a headache in the evenings. Sleep and fluids discussed.",
    "Seasonal allergy. Antihistamine prescribed for the spring.",
    "Follow-up after a sprained ankle: full movement, no pain.",
    "Vaccination against influenza given. No reaction.",
    "Cholesterol slightly raised. Advice on diet; new sample in three months.",
    "Cough for two weeks, lungs clear. To come back if fever appears.",
    "Prescription renewed. No side effects reported.",
    "Referred to physiotherapy for pain in the lower back.",
    "Annual check-up without remarks.",
)

RecordListener = Callable[[ResourceCall | Callback], None]


class DemoResources(LocalServer):
    """One server that plays `resource-1`, `resource-2` and so on.

    A resource does what the delay of a call says, or what `behave` decided. `calls` and
    `callbacks` keep the last of both; `listener` gets each the moment it happens.
    """

    def __init__(
        self, *, port: int = 0, seed: int | None = None, listener: RecordListener | None = None
    ) -> None:
        super().__init__(port)
        self.calls: deque[ResourceCall] = deque(maxlen=_MAX_RECORDS)
        self.callbacks: deque[Callback] = deque(maxlen=_MAX_RECORDS)
        self.listener = listener
        self._random = random.Random(seed)  # noqa: S311 - for the notes' texts
        self._behaviours: dict[str, tuple[Behaviour, int]] = {}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        pool = aiohttp.TCPConnector(limit=_MAX_CONNECTIONS, keepalive_timeout=_IDLE)
        self._session = aiohttp.ClientSession(connector=pool, timeout=_TIMEOUT, headers=_HEADERS)
        return await super().__aenter__()

    async def __aexit__(self, *_: object) -> None:
        await super().__aexit__()
        if self._session is not None:
            await self._session.close()

    def url_of(self, number: int) -> str:
        return f"{self.url}/resource-{number}/journals"

    def behave(self, number: int, behaviour: Behaviour | None, *, delay_ms: int = 0) -> None:
        """Decide what a resource does; with None the delay of each call decides again.

        `delay_ms` is for calls that name no delay, or a negative one.
        """
        if behaviour is None:
            self._behaviours.pop(f"resource-{number}", None)
        else:
            self._behaviours[f"resource-{number}"] = (behaviour, delay_ms)

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        path = _PATH.fullmatch(request.path)
        if path is None:
            return web.Response(status=404)
        if request.method != "POST":
            return web.Response(status=405, headers={"Allow": "POST"})
        try:
            call = await _read(request, resource=path[1], direct=path[3] is not None)
            behaviour, delay = self._plan(call)
        except ValueError as error:
            return web.Response(status=400, text=str(error))
        self._record(self.calls, call)
        return await self._answer_call(request, call, behaviour, delay)

    def _plan(self, call: ResourceCall) -> tuple[Behaviour, float]:
        """Choose what to do with a call, and after how many seconds."""
        requested = call.delay
        chosen = self._behaviours.get(call.resource)
        if chosen is not None:
            behaviour, usual = chosen
            return behaviour, (usual if requested is None or requested < 0 else requested) / 1000
        read = calls.direct_behaviour_of if call.direct else calls.behaviour_of
        return read(requested or 0), max(requested or 0, 0) / 1000

    async def _answer_call(
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
                await self._hold(call, asyncio.Event().wait())
            case Behaviour.REJECT if not call.direct:
                return web.Response(status=401)
        if call.direct:
            return await self._answer_directly(call, behaviour, delay)
        if behaviour is not Behaviour.SILENT:
            times = 2 if behaviour is Behaviour.TWICE else 1
            self.tasks.start(self._call_back(call, delay, times))
        return web.Response()

    async def _answer_directly(
        self, call: ResourceCall, behaviour: Behaviour, delay: float
    ) -> web.StreamResponse:
        if behaviour is Behaviour.REJECT:
            rejection = {"status": "REJECTED", "notes": None, "correlationId": None}
            answer = self._answer(call, 0) | rejection
        else:
            silent = behaviour is Behaviour.SILENT
            await self._hold(call, asyncio.Event().wait() if silent else asyncio.sleep(delay))
            answer = self._answer(call, delay)
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    async def _hold(self, call: ResourceCall, pause: Awaitable[Any]) -> None:
        """Wait inside a call; record it as abandoned if the caller leaves or the server closes."""
        try:
            await pause
        except asyncio.CancelledError:
            call.abandoned = True
            self._report(call)
            raise

    async def _call_back(self, call: ResourceCall, delay: float, times: int) -> None:
        await asyncio.sleep(delay)
        url, answer = call.body.get("callbackUrl"), self._answer(call, delay)
        for _ in range(times if url else 0):
            sent_at = time.monotonic()
            status, reply = await self._post(str(url), orjson.dumps(answer))
            callback = Callback(
                resource=call.resource,
                correlation_id=call.body.get("correlationId"),
                body=answer,
                sent_at=sent_at,
                status=status,
                reply=reply,
            )
            self._record(self.callbacks, callback)

    async def _post(self, url: str, content: bytes) -> tuple[int | None, dict[str, Any]]:
        """Send a callback; return the status and the reply, or None and the reason.

        Muster counts a callback once, so it may be sent again after a broken connection.
        """
        if self._session is None:
            raise RuntimeError("the resources are not running")
        status, reply = None, {}
        for pause in _PAUSES:
            await asyncio.sleep(pause)
            try:
                async with self._session.post(url, data=content) as response:
                    status, reply = response.status, _document(await _read_bounded(response))
            except aiohttp.InvalidURL:
                return None, {"detail": f"{url} is not an address"}
            except (aiohttp.ClientError, TimeoutError) as error:
                status, reply = None, {"detail": str(error) or type(error).__name__}
            if status not in _RETRIED:
                break
        return status, reply

    def _answer(self, call: ResourceCall, delay: float) -> dict[str, Any]:
        # The journals' dates are local and have no zone.
        now = datetime.now().astimezone()
        return {
            "source": call.source,
            "patientId": call.patient_id,
            "correlationId": call.body.get("correlationId"),
            "delayMs": round(delay * 1000) if call.delay is None else call.delay,
            "status": "ok",
            "notes": make_notes(call.source, call.patient_id, self._random, now),
        }

    def _record(self, records: deque[Any], record: ResourceCall | Callback) -> None:
        records.append(record)
        self._report(record)

    def _report(self, record: ResourceCall | Callback) -> None:
        if self.listener is not None:
            self.listener(record)
        self.notify()


async def _read(request: web.BaseRequest, *, resource: str, direct: bool) -> ResourceCall:
    body = orjson.loads(await request.read())
    if type(body) is not dict:
        raise ValueError("a call is a JSON object")
    return ResourceCall(resource=resource, direct=direct, body=body, headers=request.headers)


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    try:
        # One byte more tells a reply that is too long from one that just fits.
        return await response.content.readexactly(_MAX_REPLY_BYTES + 1)
    except asyncio.IncompleteReadError as short:
        return short.partial


def _document(reply: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(reply)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def make_notes(
    resource: str, patient_id: str | None, chance: random.Random, now: datetime
) -> list[dict[str, Any]]:
    """Invent the notes of one answer, with dates in the year before `now`."""
    return [
        {
            "id": str(uuid.UUID(int=chance.getrandbits(128), version=4)),
            "date": _date(chance, now),
            "caregiverId": f"Caregiver-{resource}",
            "patientId": patient_id,
            "doctorId": f"Doctor-{chance.randint(1, _DOCTORS)}",
            "note": chance.choice(_TEXTS),
        }
        for _ in range(NOTES_PER_ANSWER)
    ]


def _date(chance: random.Random, now: datetime) -> str:
    """Choose a local date-time, to the second and without a zone."""
    moment = now.replace(microsecond=0, tzinfo=None) - timedelta(seconds=chance.randrange(_YEAR))
    return moment.isoformat()
