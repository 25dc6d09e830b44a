"""Creates the demo's pool, event types and subscriptions, and removes them again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cli.dispatch import job_filters, pools, subscriptions
from cli.events import event_types
from cli.shell.client import Client
from cli.shell.parsing import join_path
from cli.shell.problems import ProblemResponseError
from core.dispatch.job import Mode
from tools.demo.dispatch.receiver import DemoReceiver
from tools.demo.runner import none_on
from tools.load.tasks import poll

POOL = "muster-demo"
RATE = 600
VERSION = "1.0"
# A pool is in use until its last deliveries are written.
_POOL_TIMEOUT = 5.0
_GONE = (404, 409)  # there is none, or it has been removed already

SCHEMA = {
    "type": "object",
    "required": ["order", "customer", "total"],
    "properties": {
        "order": {"type": "integer"},
        "customer": {"type": "string"},
        "total": {"type": "number", "minimum": 0},
    },
}
PLACED, MOVED, BILLED = "order:placed", "parcel:moved", "invoice:billed"


@dataclass(frozen=True, slots=True)
class DemoSubscriber:
    """A subscriber of the demo."""

    name: str
    takes: str
    mode: Mode
    pool: str = "default"
    enveloped: bool = False


SUBSCRIBERS = (
    DemoSubscriber("billing", PLACED, Mode.IMMEDIATE),
    DemoSubscriber("audit", "order:*", Mode.IMMEDIATE, enveloped=True),
    DemoSubscriber("tracking", MOVED, Mode.BLOCK_ON_ERROR),
    DemoSubscriber("mailing", MOVED, Mode.NEXT_ON_ERROR),
    DemoSubscriber("ledger", BILLED, Mode.IMMEDIATE, pool=POOL),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoNames:
    """The codes that this run uses in Muster."""

    run_id: str

    def type_of(self, kind: str) -> str:
        return f"demo-{self.run_id}:shop:{kind}"

    def code_of(self, name: str) -> str:
        return f"demo-{self.run_id}-{name}"

    def group_of(self, name: str, customer: str) -> str:
        """Name the message group of a subscriber's deliveries for one customer."""
        return f"{self.code_of(name)}:{customer}"


@asynccontextmanager
async def demo_subscriptions(
    muster: Client, receiver: DemoReceiver, run_id: str
) -> AsyncIterator[DemoNames]:
    """Create a pool, event types and subscriptions for as long as the block lasts."""
    names = DemoNames(run_id=run_id)
    try:
        await _open_pool(muster)
        for kind in (PLACED, MOVED, BILLED):
            await _register(muster, names.type_of(kind), has_schema=kind == PLACED)
        for subscriber in SUBSCRIBERS:
            receiver.secrets[subscriber.name] = [
                await _subscribe(muster, receiver, names, subscriber)
            ]
        yield names
    finally:
        for subscriber in SUBSCRIBERS:
            await _unsubscribe(muster, names.code_of(subscriber.name))
        for kind in (PLACED, MOVED, BILLED):
            await _forget(muster, names.type_of(kind), has_schema=kind == PLACED)
        await _close_pool(muster)


async def _open_pool(muster: Client) -> None:
    limits = {"name": "Muster's demo", "rateLimit": RATE, "concurrency": 5}
    path = join_path(pools.PATH, POOL)
    if await none_on(muster.get(path), 404) is None:
        await muster.post(pools.PATH, {"code": POOL, **limits})
    else:
        await muster.post(f"{path}/activate", {})
        await muster.patch(path, limits)


async def _close_pool(muster: Client) -> None:
    """Archive the pool, unless another demo uses it."""

    async def is_closed() -> bool:
        try:
            await muster.delete(join_path(pools.PATH, POOL))
        except ProblemResponseError as problem:
            if problem.status not in _GONE:
                raise
            return problem.code != "pool_in_use"
        return True

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_POOL_TIMEOUT):
            await poll(is_closed)


async def _register(muster: Client, code: str, *, has_schema: bool) -> None:
    await muster.post(event_types.PATH, {"code": code, "name": event_types.default_type_name(code)})
    if has_schema:
        schemas = join_path(event_types.PATH, code, "schemas")
        await muster.post(schemas, {"version": VERSION, "schema": SCHEMA})
        await muster.post(f"{schemas}/{VERSION}/finalise", {})


async def _forget(muster: Client, code: str, *, has_schema: bool) -> None:
    path = join_path(event_types.PATH, code)
    if has_schema:
        await none_on(muster.post(f"{path}/schemas/{VERSION}/deprecate", {}), *_GONE)
        await none_on(muster.post(f"{path}/archive", {}), *_GONE)
    await none_on(muster.delete(path), *_GONE)


async def _subscribe(
    muster: Client, receiver: DemoReceiver, names: DemoNames, subscriber: DemoSubscriber
) -> str:
    code = names.code_of(subscriber.name)
    body = {
        "code": code,
        "name": subscriber.name.capitalize(),
        "target": receiver.url_of(subscriber.name),
        "eventTypes": [{"eventTypeCode": names.type_of(subscriber.takes)}],
        "dispatchPoolId": subscriber.pool,
        "mode": subscriber.mode.value,
        "dataOnly": not subscriber.enveloped,
    }
    await muster.post(subscriptions.PATH, body)
    return str((await muster.get(join_path(subscriptions.PATH, code, "secret")))["secret"])


async def _unsubscribe(muster: Client, code: str) -> None:
    """Remove a subscription, with the jobs that it left open if the demo broke off."""
    found = await none_on(muster.get(join_path(subscriptions.PATH, code)), 404)
    if found is None:
        return
    open_jobs = {
        "subscriptionId": found["id"],
        "status": ["ERROR", "QUEUED", "PENDING"],
        "limit": 500,
    }
    await muster.post(f"{job_filters.PATH}/cancel", open_jobs)
    await none_on(muster.delete(join_path(subscriptions.PATH, code)), *_GONE)
