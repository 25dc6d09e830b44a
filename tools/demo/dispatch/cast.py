"""What the demo makes in Muster, and how it takes that away again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from cli.dispatch import job_choice, pools, subscriptions
from cli.dispatch.parsing import join_path
from cli.events import event_types
from cli.shell.client import Client
from cli.shell.problems import ProblemResponseError
from core.dispatch.job import Mode
from tools.demo.dispatch.receiver import DemoReceiver

POOL = "muster-demo"
RATE = 600
VERSION = "1.0"
# A pool that has just delivered is done with it in a moment.
_PATIENCE = 5.0
_PAUSE = 0.1

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
    """The subscribers, and how their things are called in Muster."""

    run_id: str

    def type_of(self, kind: str) -> str:
        """The code of an event type."""
        return f"demo-{self.run_id}:shop:{kind}"

    def code_of(self, name: str) -> str:
        """The code of a subscription."""
        return f"demo-{self.run_id}-{name}"

    def group_of(self, name: str, customer: str) -> str:
        """The message group of a subscriber's deliveries for one customer."""
        return f"{self.code_of(name)}:{customer}"


@asynccontextmanager
async def demo_subscriptions(
    muster: Client, receiver: DemoReceiver, run_id: str
) -> AsyncIterator[DemoNames]:
    """Make a pool, event types and subscriptions for a while; afterwards they are gone."""
    cast = DemoNames(run_id=run_id)
    try:
        await _open_pool(muster)
        for kind in (PLACED, MOVED, BILLED):
            await _register(muster, cast.type_of(kind), has_schema=kind == PLACED)
        for role in SUBSCRIBERS:
            receiver.secrets[role.name] = [await _subscribe(muster, receiver, cast, role)]
        yield cast
    finally:
        for role in SUBSCRIBERS:
            await _unsubscribe(muster, cast.code_of(role.name))
        for kind in (PLACED, MOVED, BILLED):
            await _forget(muster, cast.type_of(kind), has_schema=kind == PLACED)
        await _close_pool(muster)


async def _open_pool(muster: Client) -> None:
    terms = {"name": "Muster's demo", "rateLimit": RATE, "concurrency": 5}
    path = join_path(pools.PATH, POOL)
    if await none_if_missing(muster.get(path)) is None:
        await muster.post(pools.PATH, {"code": POOL, **terms})
    else:
        await muster.post(f"{path}/activate", {})
        await muster.patch(path, terms)


async def _close_pool(muster: Client) -> None:
    """Archive it, unless somebody else's demo needs it."""
    deadline = asyncio.get_running_loop().time() + _PATIENCE
    while True:
        try:
            await muster.delete(join_path(pools.PATH, POOL))
        except ProblemResponseError as problem:
            if problem.status not in {404, 409}:
                raise
            is_used = problem.code == "pool_in_use"
            if not is_used or asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(_PAUSE)
        else:
            return


async def _register(muster: Client, code: str, *, has_schema: bool) -> None:
    await muster.post(event_types.PATH, {"code": code, "name": event_types.default_type_name(code)})
    if has_schema:
        schemas = join_path(event_types.PATH, code, "schemas")
        await muster.post(schemas, {"version": VERSION, "schema": SCHEMA})
        await muster.post(f"{schemas}/{VERSION}/finalise", {})


async def _forget(muster: Client, code: str, *, has_schema: bool) -> None:
    path = join_path(event_types.PATH, code)
    if has_schema:
        await none_if_missing(muster.post(f"{path}/schemas/{VERSION}/deprecate", {}))
        await none_if_missing(muster.post(f"{path}/archive", {}))
    await none_if_missing(muster.delete(path))


async def _subscribe(
    muster: Client, receiver: DemoReceiver, cast: DemoNames, role: DemoSubscriber
) -> str:
    code = cast.code_of(role.name)
    body = {
        "code": code,
        "name": role.name.capitalize(),
        "target": receiver.url_of(role.name),
        "eventTypes": [{"eventTypeCode": cast.type_of(role.takes)}],
        "dispatchPoolId": role.pool,
        "mode": role.mode.value,
        "dataOnly": not role.enveloped,
    }
    await muster.post(subscriptions.PATH, body)
    return str((await muster.get(join_path(subscriptions.PATH, code, "secret")))["secret"])


async def _unsubscribe(muster: Client, code: str) -> None:
    """Take a subscription away, with what it left undelivered if the demo broke off."""
    found = await none_if_missing(muster.get(join_path(subscriptions.PATH, code)))
    if found is None:
        return
    left = {"subscriptionId": found["id"], "status": ["ERROR", "QUEUED", "PENDING"], "limit": 500}
    await muster.post(f"{job_choice.PATH}/cancel", left)
    await none_if_missing(muster.delete(join_path(subscriptions.PATH, code)))


async def none_if_missing(asking: Awaitable[Any]) -> Any:
    """The answer, or None if there is nothing of that name, or it has gone that way already."""
    try:
        return await asking
    except ProblemResponseError as problem:
        if problem.status not in {404, 409}:
            raise
        return None
