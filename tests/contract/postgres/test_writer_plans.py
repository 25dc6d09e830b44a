"""Writers go by key, whatever the tables looked like when their statements were planned."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import asyncpg
import pytest

from core.waits.messages import Register
from core.waits.state import Wait
from core.waits.transitions import apply
from storage.postgres.pool import Connection, PoolOptions, open_connection
from storage.postgres.queries import Q
from storage.waits.flush import NO_VERSION, FlushWriter, WaitChange
from tests.contract.previous_release import all_queries
from tests.support.shards import address, api, register

NOW = 1_800_000_000.0

UNPLANNED = {
    "create_embedded_database",
    "create_embedded_role",
    "create_migrations",
    "mark_migrations",
}
# As many rows as people set up, not as events come: to read them all costs little.
SMALL = {
    "collection_versions",
    "collections",
    "dispatch_pools",
    "dispatch_warnings",
    "encryption_keys",
    "pg_database",
    "schema_migrations",
    "signing_secrets",
    "subscription_bindings",
    "tenants",
    "wait_topics",
}
# Asked by replicas of the API alone, whose connections plan each time.
PLANNED_EACH_TIME = {
    "census",
    "count_dead_letters",
    "create_jobs",
    "drop_empty_parks",
    "follow_paths",
    "mark_dead_letters_failed",
    "group_sizes",
    "inbox_census",
    "job_options",
    "list_audit_entries",
    "list_inbox",
    "list_dead_letters",
    "list_waits",
    "look_back_at_inbox",
    "dead_letter_scan_back",
    "look_back_at_waits",
    "move_ordered_jobs",
    "move_versions",
    "places_of_group",
    "read_jobs",
    "read_wait",
    "requeue_jobs",
    "settle_jobs",
}
# What is read from the beginning on purpose.
WHOLE = {
    ("change_outbox_backlog", "change_outbox"),  # so many rows at most
    ("event_outbox_backlog", "event_outbox"),  # one row, to find the first tenant
    ("oldest_unsent_change", "change_outbox"),  # every few minutes; short while the relay works
    ("oldest_unsent_change", "event_outbox"),
    ("blocked_groups", "dispatch_jobs"),  # by an index of those that failed; so many at most
    ("forget_ended", "outbox"),  # once, and hashed: see there
    ("outbox_backlog", "outbox"),  # counts what is short while the relay works
    ("settle_stranded", "event_inbox"),  # a few by number, at worst once for each tenant
}

_SCANS = {"Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Index Scan"}
_WORDS = {
    "kind": "TASK",
    "schema_type": "XSD",
    "severity": "INFO",
    "signature": "classic",
    "source": "API",
}
_PARAMETER = re.compile(r"\$(\d+)")

Prepare = Callable[[str], Awaitable[None]]


async def as_migrated(dsn: str) -> None:
    """Nobody has counted anything yet."""


async def vacuumed_while_empty(dsn: str) -> None:
    """A table without a page: the planner takes it for one row."""
    await run(dsn, "vacuum analyze")


async def filled(dsn: str) -> None:
    """Rows, and Postgres knows them."""
    await fill(dsn)
    await run(dsn, "vacuum analyze")


async def filled_at_once(dsn: str) -> None:
    """Rows of one tenant, one moment and one type, which Postgres knows.

    As it takes all rows for such, an index that has these columns before the key seems as good as
    the one that has the key first: it would be read once for each tenant and moment there is.
    """
    await fill(dsn, tenant_id="1", type="'t'", pattern="'t'")
    await run(dsn, "vacuum analyze")


async def emptied(dsn: str) -> None:
    """Pages that once had rows, and have none: the planner takes any number of them for one row."""
    tables = await fill(dsn)
    await run(dsn, *(f"delete from {table}" for table in tables))
    await run(dsn, "vacuum (analyze, truncate false)")


async def run(dsn: str, *statements: str) -> None:
    """As the superuser, and past foreign keys."""
    conn = await asyncpg.connect(dsn.replace("//muster@", "//postgres@"))
    try:
        await conn.execute("set session_replication_role = replica")
        for statement in statements:
            await conn.execute(statement)
    finally:
        await conn.close()


async def fill(dsn: str, **same: str) -> list[str]:
    """Some hundred rows in every table but that of the migrations; of anything, if not given."""
    conn = await asyncpg.connect(dsn)
    try:
        columns = await conn.fetch(
            """select c.relname as table, a.attname as name, format_type(a.atttypid, null) as type
                 from pg_class c
                 join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                where c.relnamespace = 'public'::regnamespace
                  and c.relkind = 'r'
                  and c.relname not in ('schema_migrations', 'tenants')
                  and a.attidentity = '' and not a.atthasdef
                order by c.relname, a.attnum"""
        )
    finally:
        await conn.close()
    tables: dict[str, dict[str, str]] = {}
    for table, name, type_ in columns:
        tables.setdefault(table, {})[name] = same.get(name) or _allowed(name, type_)
    await run(
        dsn,
        *(
            f"insert into {table} ({', '.join(row)})"
            f" select {', '.join(row.values())} from generate_series(1, 300) as n"
            for table, row in tables.items()
        ),
    )
    return list(tables)


def _allowed(name: str, type_: str) -> str:
    """A value, different in each row where it can be, that the column takes."""
    if name in _WORDS:
        return f"'{_WORDS[name]}'"
    return {
        "boolean": "false",
        "bytea": "int8send(n)",
        "date": "current_date - n::int",
        "json": "'{}'",
        "jsonb": "'{}'",
        "text[]": "array['v' || n]",
        "timestamp with time zone": "now()",
    }.get(type_, f"n::text::{type_}")


@pytest.mark.parametrize(
    "state", [as_migrated, vacuumed_while_empty, filled, filled_at_once, emptied]
)
async def test_no_writer_reads_a_table_that_grows(database: str, state: Prepare) -> None:
    await state(database)
    conn = await open_connection(PoolOptions(dsn=database, name="test"))
    try:
        await conn.execute("set plan_cache_mode = force_generic_plan")
        firsts = await first_columns(conn)
        found = {
            (name, table)
            for name in sorted(all_queries().keys() - UNPLANNED)
            for table in await read_whole(conn, name, firsts)
        }
    finally:
        await conn.close()
    wrong = sorted(one for one in found - WHOLE if one[0] not in PLANNED_EACH_TIME)
    assert not wrong, wrong


async def read_whole(conn: Connection, name: str, firsts: dict[str, str]) -> set[str]:
    """The tables that grow which the plan of a query does not look up by key."""
    arguments = ["null"] * max(map(int, _PARAMETER.findall(Q[name])), default=0)
    given = f"({', '.join(arguments)})" if arguments else ""
    await conn.execute(f"prepare plan_{name} as {Q[name]}")
    plan = await conn.fetchval(f"explain (format json) execute plan_{name}{given}")
    return set(_whole(json.loads(plan)[0]["Plan"], firsts)) - SMALL


async def first_columns(conn: Connection) -> dict[str, str]:
    """What each index is sorted by first."""
    found = await conn.fetch(
        "select indexrelid::regclass::text, pg_get_indexdef(indexrelid, 1, false) from pg_index"
    )
    return {index: column for index, column in found}  # noqa: C416 - records, not pairs


def _whole(node: dict[str, Any], firsts: dict[str, str], table: str = "") -> Iterator[str]:
    """Tables that are read without a condition on the index, or up to a condition on a join.

    The latter: as many as there are of one tenant, each compared with all that is asked for. A
    condition that says nothing of the index's first column is none: Postgres would look once for
    each value that the column has.
    """
    table = node.get("Relation Name", table)
    if node["Node Type"] in _SCANS:
        first = firsts.get(node.get("Index Name", ""), "")
        condition = node.get("Index Cond", "")
        if not first or not re.search(rf"(?<!\w){re.escape(first)}(?!\w)", condition):
            yield table
    if "Join Filter" in node:
        yield from _tables(node)
    for part in node.get("Plans", []):
        yield from _whole(part, firsts, table)


def _tables(node: dict[str, Any]) -> Iterator[str]:
    if "Relation Name" in node:
        yield node["Relation Name"]
    for part in node.get("Plans", []):
        yield from _tables(part)


@pytest.fixture
async def writer(database: str) -> AsyncIterator[Connection]:
    """One that planned its flush in a quiet night: nothing was there, and Postgres knew so."""
    await vacuumed_while_empty(database)
    conn = await open_connection(PoolOptions(dsn=database, name="test"))
    message = register(address())
    for _ in range(6):  # the sixth time Postgres keeps the plan
        assert await flush(conn, [change(message, opened(message))]) == set()
    yield conn
    await conn.close()


async def test_a_flush_reads_what_it_changes(writer: Connection) -> None:
    messages = [register(address()) for _ in range(3000)]
    new = [WaitChange(m.address.key, 1, NO_VERSION, opened(m)) for m in messages]
    assert len(await flush(writer, new)) == len(new)
    async with writer.transaction():
        assert len(await flush(writer, [change(messages[0], opened(messages[0]))])) == 1
        fetched = await writer.fetchval(
            "select idx_tup_fetch from pg_stat_xact_user_tables"
            " where relname = 'execution_wait_states'"
        )
    assert fetched == 1


async def flush(conn: Connection, changes: list[WaitChange]) -> set[bytes]:
    return await FlushWriter("a", 3600.0).flush(conn, changes)


def opened(message: Register) -> Wait:
    wait = apply(None, message, NOW).wait
    assert wait is not None
    return wait


def change(message: Register, wait: Wait) -> WaitChange:
    """The first event of a wait."""
    decision = apply(wait, api(message.address), NOW)
    return WaitChange(
        message.address.key, 1, wait.version, decision.wait, list(decision.entries), [], ["early"]
    )
