"""Record writes with their change rows: in batches and single, against Postgres by itself."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import asyncpg
from msgspec.structs import replace

from actors.client import ActorClient
from bench.actors import actors
from bench.harness import Arm, Measure, Result, interleave, ratios_of, spread
from bench.stage import Stage
from core.records.collection import CollectionDefinition, assign_slots
from core.records.field import FieldDefinition, FieldType
from core.records.messages import RecordSaved, RecordWrite, SaveRecord
from core.records.record import Collection, RecordAddress
from core.records.record_schema import compile_collection
from core.records.save import RecordHooks, SavedState, UpcomingChange, save
from core.shared.tsid import IdMaker
from handlers.filters.expressions import compile_expression
from handlers.filters.patterns import compile_pattern
from storage.access import keys
from storage.entities.transactions import TransactionChange, flush_transactions
from storage.postgres.pool import PoolOptions, open_connection, open_pool
from storage.records import collections
from storage.records.collections import CollectionRow, NewCollection, VersionNote

BATCH, LANES, SINGLES = 200, 8, 128
SHARDS = int(os.environ.get("BENCH_SHARDS", os.cpu_count() or 1))
RULES = 100
GOALS = {"batches / plain": "≥ 4", "batches / bare": "≥ 0.4"}
_FIELDS = (
    FieldDefinition(name="name", type=FieldType.STRING, required=True, max=100),
    FieldDefinition(name="status", type=FieldType.PICKLIST, values=("s0", "s1"), indexed=True),
    FieldDefinition(name="total", type=FieldType.CURRENCY, min=0),
    FieldDefinition(name="pieces", type=FieldType.INTEGER),
    FieldDefinition(name="price", type=FieldType.FORMULA, formula="total / pieces"),
)
_DEFINITION = CollectionDefinition(name="orders", fields=_FIELDS, slots=assign_slots(_FIELDS))
_SCHEMA = compile_collection(1, _DEFINITION, compile_expression, compile_pattern)
_NO_RULES = RecordHooks()
_NOW = 1_800_000_000.0
_INSERT_RECORD = """
insert into records (tenant_id, collection_no, record_id, version, data, indexed_1, created_at,
                     updated_at, created_by, updated_by)
values ($1, $2, $3, 1, $4, $5, now(), now(), 'bench', 'bench')"""
_INSERT_CHANGE = """
insert into record_changes (tenant_id, collection_no, record_id, change_id, version, kind, data,
                            user_id, turn_id, at)
values ($1, $2, $3, $4, 1, 'CREATED', $5, 'bench', $3, now())"""


async def run(stage: Stage) -> Result:
    """Writes a second, each with its change row, acknowledged after the commit."""
    result = Result("records", goals=GOALS)
    size = 2_000 if stage.quick else 20_000
    arms: dict[str, Arm] = {
        "batches": partial(_ours, stage, size, _in_batches),
        "single": partial(_ours, stage, size // 2, _one_by_one),
        "plain": partial(_plain, stage, size // 10),
        "bare": partial(_bare, stage, size),
        "decided, no rules": partial(_decided, size, _NO_RULES),
        f"decided, {RULES} rules": partial(_decided, size, RecordHooks(before_save=_rules())),
    }
    found = await interleave(arms, rounds=1 if stage.quick else 5)
    for name, measures in found.items():
        into = result.peers if name in {"plain", "bare"} else result.ours
        into[name] = {"writes_per_second": spread([one.rate for one in measures])}
    for ours in ("batches", "single"):
        for peer in ("plain", "bare"):
            result.ratios[f"{ours} / {peer}"] = ratios_of(found[ours], found[peer])
    rules = f"decided, {RULES} rules"
    result.ratios[f"{rules} / no rules"] = ratios_of(found[rules], found["decided, no rules"])
    return result


def _messages(tenant: int, collection_no: int, count: int) -> list[SaveRecord]:
    new_id = IdMaker(1, time.time)
    return [
        SaveRecord(
            address=RecordAddress(tenant, collection_no, new_id()),
            turn_id=new_id(),
            write=RecordWrite.CREATE,
            definition_version=1,
            fields={
                "name": f"order {n}",
                "status": f"s{n % 2}",
                "total": n % 1_000,
                "pieces": 1 + n % 7,
            },
            user="bench",
            fresh=True,
        )
        for n in range(count)
    ]


async def _define(dsn: str) -> tuple[int, int]:
    """Make a tenant and its collection; return their numbers."""
    pool = await open_pool(PoolOptions(dsn=dsn, name="bench"))
    try:
        tenant = await keys.create_tenant(pool, "bench")
        new = NewCollection(
            collection_id="col_1", name="orders", description=None, definition=_DEFINITION
        )
        made = await collections.create(pool, tenant, new, VersionNote(), lambda *_: None)
        assert isinstance(made, CollectionRow)
        return tenant, made.collection_no
    finally:
        await pool.close()


Send = Callable[[ActorClient, list[SaveRecord]], Any]


async def _ours(stage: Stage, count: int, send: Send) -> Measure:
    """Through the client, the shards and their flushes; every answer and the tables are checked."""
    dsn = await stage.database()
    try:
        tenant, number = await _define(dsn)
        messages = _messages(tenant, number, count + BATCH)
        async with actors(dsn, shards=SHARDS) as gateway:
            await _in_batches(gateway, messages[:BATCH])
            cpu, started = stage.cpu_seconds(), time.perf_counter()
            replies = await send(gateway, messages[BATCH:])
            seconds, cpu = time.perf_counter() - started, stage.cpu_seconds() - cpu
        assert len(replies) == count
        assert all(isinstance(one, RecordSaved) and one.version == 1 for one in replies)
        await _check(dsn, count + BATCH)
    finally:
        await stage.drop(dsn)
    return Measure(count, seconds, cpu)


async def _in_batches(gateway: ActorClient, messages: list[SaveRecord]) -> list[Any]:
    replies: list[Any] = []

    async def lane(number: int) -> None:
        mine = messages[number::LANES]
        for start in range(0, len(mine), BATCH):
            replies.extend(await gateway.send_many(mine[start : start + BATCH]))

    await asyncio.gather(*(lane(number) for number in range(LANES)))
    return replies


async def _one_by_one(gateway: ActorClient, messages: list[SaveRecord]) -> list[Any]:
    replies: list[Any] = []

    async def caller(number: int) -> None:
        replies.extend([await gateway.send(one) for one in messages[number::SINGLES]])

    await asyncio.gather(*(caller(number) for number in range(SINGLES)))
    return replies


async def _plain(stage: Stage, count: int) -> Measure:
    """The same two rows by two statements and a commit for each record, on eight connections."""
    dsn = await stage.database()
    changes = [_decide(one) for one in _messages(1, 1, count)]
    connections = [await asyncpg.connect(dsn) for _ in range(LANES)]

    async def lane(number: int) -> None:
        conn = connections[number]
        for state in changes[number::LANES]:
            record, change = state.record, state.change
            place = (1, 1, record.address.record_id)
            async with conn.transaction():
                await conn.execute(_INSERT_RECORD, *place, record.text, record.indexed[0])
                await conn.execute(_INSERT_CHANGE, *place, change.change_id, change.data)

    try:
        await connections[0].execute("select 1")
        cpu, started = stage.cpu_seconds(), time.perf_counter()
        await asyncio.gather(*(lane(number) for number in range(LANES)))
        seconds, cpu = time.perf_counter() - started, stage.cpu_seconds() - cpu
        await _check(dsn, count)
    finally:
        for conn in connections:
            await conn.close()
        await stage.drop(dsn)
    return Measure(count, seconds, cpu)


async def _bare(stage: Stage, count: int) -> Measure:
    """The same rows by the same statement in the same batches, decided before the clock starts."""
    dsn = await stage.database()
    tenant, number = await _define(dsn)
    collection = Collection(
        tenant=tenant, collection_no=number, collection_id="col_1", definition=_DEFINITION
    )
    changes = []
    for message in _messages(tenant, number, count):
        state = _decide(message)
        changes.append(
            TransactionChange(
                before={state.record.ref: None},
                after={state.record.ref: state.record},
                addressed=state.record.ref,
                definitions={collection.ref: collection.version},
                rows=[state.change],
            )
        )
    conn = await open_connection(PoolOptions(dsn=dsn, name="bare"))
    try:
        cpu, started = stage.cpu_seconds(), time.perf_counter()
        for start in range(0, count, BATCH):
            assert await flush_transactions(conn, changes[start : start + BATCH]) == set()
        seconds, cpu = time.perf_counter() - started, stage.cpu_seconds() - cpu
        await _check(dsn, count)
    finally:
        await conn.close()
        await stage.drop(dsn)
    return Measure(count, seconds, cpu)


def _decide(message: SaveRecord, hooks: RecordHooks = _NO_RULES) -> SavedState:
    state = save(message, None, _SCHEMA, hooks, _NOW, lambda: message.address.record_id)
    assert isinstance(state, SavedState), state
    return state


async def _decided(count: int, hooks: RecordHooks) -> Measure:
    """The pure part of a write alone, without and with filters of rules that see it."""
    messages = [replace(one, fresh=True) for one in _messages(1, 1, count)]
    started = time.perf_counter()
    for message in messages:
        _decide(message, hooks)
    return Measure(count, time.perf_counter() - started)


def _rules() -> Callable[[UpcomingChange], Mapping[str, Any]]:
    """Evaluate the filters of rules, none of which passes."""
    filters = [
        compile_expression(f"status == 'r{n}' && total > {n} && pieces in [1, 2]").evaluate
        for n in range(RULES)
    ]

    def before_save(change: UpcomingChange) -> Mapping[str, Any]:
        field_of, scope = change.data.get, {"record": change.data}
        assert not any(evaluate(field_of, scope) is True for evaluate in filters)
        return {}

    return before_save


async def _check(dsn: str, count: int) -> None:
    """A fast wrong run scores nothing: every record has its change row, once."""
    conn = await asyncpg.connect(dsn)
    try:
        found = await conn.fetchrow(
            "select count(*) as records, count(c.version) as changes from records r"
            " left join record_changes c using (tenant_id, collection_no, record_id, version)"
        )
    finally:
        await conn.close()
    assert tuple(found) == (count, count), found
