"""What the demo makes in Muster, and how it takes that away again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from cli.dispatch import job_choice, pools, subscriptions
from cli.dispatch.parsing import path_of
from cli.events import event_types
from cli.shell.client import Client
from cli.shell.problems import ProblemError
from core.dispatch.job import Mode
from tools.demo.dispatch.receiver import Receiver

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
class Role:
    """A subscriber of the demo."""

    name: str
    takes: str
    mode: Mode
    pool: str = "default"
    enveloped: bool = False


ROLES = (
    Role("billing", PLACED, Mode.IMMEDIATE),
    Role("audit", "order:*", Mode.IMMEDIATE, enveloped=True),
    Role("tracking", MOVED, Mode.BLOCK_ON_ERROR),
    Role("mailing", MOVED, Mode.NEXT_ON_ERROR),
    Role("ledger", BILLED, Mode.IMMEDIATE, pool=POOL),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
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
async def gathered(muster: Client, receiver: Receiver, run_id: str) -> AsyncIterator[Cast]:
    """Make a pool, event types and subscriptions for a while; afterwards they are gone."""
    cast = Cast(run_id=run_id)
    try:
        await _open_pool(muster)
        for kind in (PLACED, MOVED, BILLED):
            await _register(muster, cast.type_of(kind), has_schema=kind == PLACED)
        for role in ROLES:
            receiver.secrets[role.name] = [await _subscribe(muster, receiver, cast, role)]
        yield cast
    finally:
        for role in ROLES:
            await _unsubscribe(muster, cast.code_of(role.name))
        for kind in (PLACED, MOVED, BILLED):
            await _forget(muster, cast.type_of(kind), has_schema=kind == PLACED)
        await _close_pool(muster)


async def _open_pool(muster: Client) -> None:
    terms = {"name": "Muster's demo", "rateLimit": RATE, "concurrency": 5}
    path = path_of(pools.PATH, POOL)
    if await if_there(muster.get(path)) is None:
        await muster.post(pools.PATH, {"code": POOL, **terms})
    else:
        await muster.post(f"{path}/activate", {})
        await muster.patch(path, terms)


async def _close_pool(muster: Client) -> None:
    """Archive it, unless somebody else's demo needs it."""
    deadline = asyncio.get_running_loop().time() + _PATIENCE
    while True:
        try:
            await muster.delete(path_of(pools.PATH, POOL))
        except ProblemError as problem:
            if problem.status not in {404, 409}:
                raise
            is_used = problem.code == "pool_in_use"
            if not is_used or asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(_PAUSE)
        else:
            return


async def _register(muster: Client, code: str, *, has_schema: bool) -> None:
    await muster.post(event_types.PATH, {"code": code, "name": event_types.name_of(code)})
    if has_schema:
        schemas = path_of(event_types.PATH, code, "schemas")
        await muster.post(schemas, {"version": VERSION, "schema": SCHEMA})
        await muster.post(f"{schemas}/{VERSION}/finalise", {})


async def _forget(muster: Client, code: str, *, has_schema: bool) -> None:
    path = path_of(event_types.PATH, code)
    if has_schema:
        await if_there(muster.post(f"{path}/schemas/{VERSION}/deprecate", {}))
        await if_there(muster.post(f"{path}/archive", {}))
    await if_there(muster.delete(path))


async def _subscribe(muster: Client, receiver: Receiver, cast: Cast, role: Role) -> str:
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
    return str((await muster.get(path_of(subscriptions.PATH, code, "secret")))["secret"])


async def _unsubscribe(muster: Client, code: str) -> None:
    """Take a subscription away, with what it left undelivered if the demo broke off."""
    found = await if_there(muster.get(path_of(subscriptions.PATH, code)))
    if found is None:
        return
    left = {"subscriptionId": found["id"], "status": ["ERROR", "QUEUED", "PENDING"], "limit": 500}
    await muster.post(f"{job_choice.PATH}/cancel", left)
    await if_there(muster.delete(path_of(subscriptions.PATH, code)))


async def if_there(asking: Awaitable[Any]) -> Any:
    """The answer, or None if there is nothing of that name, or it has gone that way already."""
    try:
        return await asking
    except ProblemError as problem:
        if problem.status not in {404, 409}:
            raise
        return None
