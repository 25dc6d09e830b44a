"""A node that stops, is given up by Ray, and wakes up again with work in its shards' memory."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import psutil

from actors.runtime.names import host_actor_name
from core.shared.address import Address
from storage.waits.flush import write_parked
from tests.chaos.cluster_drills import Told, account, back_elsewhere, served_again
from tests.chaos.cluster_load import (
    Crowd,
    RouterLoad,
    acknowledged,
    address_of,
    under_load,
    until,
)
from tests.chaos.cluster_nodes import Node, send
from tests.chaos.cluster_stage import CROWD, WARM, Stage
from tools.chaos.scenario import RequestChannel


async def freeze_node(stage: Stage, seconds: float, *, whole: bool = True) -> Told:
    """SIGSTOP of a node; Ray brings its actors back elsewhere; then SIGCONT.

    `whole`: the shards stop with their raylet, in the middle of their work.
    Otherwise the raylet stops alone, and its shards work on beside their second incarnations.
    """
    async with under_load(stage.client, stage.plan()) as (drill, load):
        await acknowledged(drill, WARM)
        victim, lost = await stage.victim()
        shards = [name for name in stage.shards if name in lost]
        zombies = [psutil.Process(lost[name]) for name in shards]
        crowd = stage.crowd(drill, shards)
        await crowd.step(RequestChannel.REGISTER)
        async with _hanging_flush(stage, shards, crowd) as strays:
            first_event = await _decided_unwritten(stage, shards, crowd)
            send([*zombies, *victim.processes()] if whole else [victim.raylet], signal.SIGSTOP)
            struck = time.monotonic()
            asked = {step for shard in shards for step in load.unanswered[shard]}
            held = await _held(stage, zombies, {address_of(scenario).key for scenario, _ in asked})
        served = await _succeeded(stage, lost, struck)
        await asyncio.gather(strays, first_event)
        await crowd.step(RequestChannel.KAFKA)
        await _nothing_left(stage, load, shards, asked)
        await asyncio.sleep(max(0.0, seconds - (time.monotonic() - struck)))
        told = await _wake(stage, victim, zombies, held, whole=whole)
        await acknowledged(drill, WARM)
        back = await back_elsewhere(stage, victim, lost)
    stage.nodes.add()
    outcome = {"hit": sorted(lost), "served_again": served, "back": back}
    return account(drill) | outcome | told


@asynccontextmanager
async def _hanging_flush(
    stage: Stage, shards: list[str], crowd: Crowd
) -> AsyncIterator[asyncio.Task[None]]:
    """Inside, one flush of each shard hangs in Postgres with part of its work done.

    Each shard is sent an event that nobody waits for, which it puts into the inbox; we have put the
    same row there and do not commit it. Outside we never did: the flush may go on.
    """
    hanging = (
        "select count(distinct application_name) from pg_stat_activity"
        " where application_name = any($1) and wait_event_type = 'Lock'"
    )
    names = [f"muster {shard}" for shard in shards]
    conn = await asyncpg.connect(stage.config.dsn)

    async def all_hang() -> bool:
        return bool(await conn.fetchval(hanging, names) == len(names))

    ours = conn.transaction()
    await ours.start()
    try:
        await write_parked(conn, [(one.address.key, one) for one in crowd.strays_as_parked()], 60.0)
        sent = asyncio.create_task(crowd.send_strays())
        await until("each shard has a flush under way", all_hang, 30)
        yield sent
    finally:
        await ours.rollback()
        await conn.close()


async def _decided_unwritten(stage: Stage, shards: list[str], crowd: Crowd) -> asyncio.Task[None]:
    """Send the crowd's first event, and return when every shard has decided on all of it.

    While a flush hangs no other can begin: what is decided now is in the shards' memory only.
    """
    before = {shard: await stage.unsaved(shard) for shard in shards}
    task = asyncio.create_task(crowd.step(RequestChannel.API))

    async def decided() -> bool:
        return all([await stage.unsaved(s) >= before[s] + crowd.size for s in shards])

    await until("the shards have decided", decided, 30)
    return task


async def _succeeded(stage: Stage, lost: dict[str, int], since: float) -> float:
    """Seconds until each lost shard has a successor that takes new correlations."""
    shards = [name for name in stage.shards if name in lost]

    async def replaced() -> bool:
        pids = await stage.pids(shards)
        return all(pids[name] != lost[name] for name in shards)

    await until("the shards have successors", replaced, 120)
    return await served_again(stage, shards, since)


async def _nothing_left(stage: Stage, load: RouterLoad, shards: list[str], asked: set[Any]) -> None:
    """Return once others have done all that the stopped shards had under way.

    From then on each write of theirs is a stale one.
    """
    await until(
        "all callers are answered",
        lambda: not any(asked & load.unanswered[shard] for shard in shards),
    )
    now = await stage.client.pool.fetchval("select now()")
    await until("the timer has caught up", lambda: _caught_up(stage, shards, now))


async def _caught_up(stage: Stage, shards: list[str], since: Any) -> bool:
    """Whether the timer has ended all waits of these shards that were due by then."""
    query = "select wait_key from execution_wait_states where status = 'waiting' and due_at < $1"
    rows = await stage.client.pool.fetch(query, since)
    return not any(host_actor_name(row["wait_key"], stage.config) in shards for row in rows)


async def _held(stage: Stage, zombies: list[psutil.Process], asked: set[bytes]) -> set[bytes]:
    """The correlations that shards have in memory, or that they were asked to register.

    One that has ended leaves memory. One that was last changed before the shard began may not be in
    it: what is found of it after the freeze is decided on its row as it is then.
    """
    began = max(one.create_time() for one in zombies)
    changed = (
        "select wait_key from execution_wait_states"
        " where status = 'waiting' and updated_at > to_timestamp($1)"
    )
    known = "select wait_key from execution_wait_states where wait_key = any($1)"
    pool = stage.client.pool
    held = {row["wait_key"] for row in await pool.fetch(changed, began)}
    return held | asked - {row["wait_key"] for row in await pool.fetch(known, list(asked))}


async def _wake(
    stage: Stage, victim: Node, zombies: list[psutil.Process], held: set[bytes], *, whole: bool
) -> Told:
    """SIGCONT; what the shards of this node then tried to write, and what Postgres took of it.

    The shards wake up first: on a busy machine their raylet might end them before they do harm.
    Whatever was not written over a connection of a shard that serves was written by a zombie. It is
    stale if the zombie `held` what it decided on; about others it may find calls that came while
    it was stopped, and decides on what it reads now.
    """
    node = victim.processes()
    at_least = len(zombies) * CROWD if whole else 0
    mark = await stage.witness.mark()
    serving = await stage.ports()
    send(zombies, signal.SIGCONT)
    await until(
        "the zombies have tried to write", lambda: len(_conflicts(stage, zombies)) >= at_least
    )
    woken = time.monotonic()
    send(node, signal.SIGCONT)
    await asyncio.to_thread(victim.reap)
    _, left = await asyncio.to_thread(psutil.wait_procs, node, 30)
    assert not left, f"{left} outlive their node"
    lived = time.monotonic() - woken
    stage.nodes.forget(victim)
    serving |= await stage.ports()
    tried = [one for one in await stage.witness.since(mark) if one.port not in serving]
    written = [key for one in tried for key in one.keys]
    # What a zombie lost it has read again: a later write of the same key is not a stale one either.
    refused = _conflicts(stage, zombies)
    return {
        "node_gone_after": round(lived, 2),
        "attempts": len(refused),
        "at_least": at_least,
        "flushes": sum(one.kind == "UPDATE" for one in tried),
        "accepted": sum(key in held - refused for key in written),
        "decided_anew": sum(key not in held - refused for key in written),
    }


def _conflicts(stage: Stage, zombies: list[psutil.Process]) -> set[bytes]:
    """The correlations whose write was refused, by the zombies' own logs."""
    lines = (line for one in zombies for line in stage.nodes.said(one.pid, "wait.conflict"))
    return {Address(line["tenant"], line["execution"], line["correlation"]).key for line in lines}
