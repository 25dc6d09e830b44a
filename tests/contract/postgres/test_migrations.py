"""A schema that is brought up to date keeps what was in it."""

import asyncpg

from core.access.permissions import Permission
from core.waits.spec import encode_spec
from core.waits.state import Wait
from core.waits.strategy import Outcome
from core.waits.transitions import apply
from storage.postgres.migrate import migrate, pending
from storage.postgres.migration_files import known
from storage.postgres.queries import Q
from storage.waits import waits
from tests.contract.postgres.test_migration_rules import NEW, faults_in
from tests.support.postgres import BareServer
from tests.support.shards import address, api, kafka, register

NOW = 1_800_000_000.0
OLD_ROW = """
insert into execution_wait_states
       (wait_key, tenant_id, execution_id, correlation_id, node_id, aggregation_strategy, status,
        version, log_length, spec, marks, ending, registered_by,
        created_at, updated_at, expires_at, due_at)
values ($1, 1, $2, $3, $4, 'all', 'waiting', 1, 0, $5, '[["pending"],["pending"]]', null, $6,
        to_timestamp($7), now(), to_timestamp($8), to_timestamp($8))
"""


OLD_KEY = """
insert into api_keys (prefix, tenant_id, name, secret_hash, permissions)
values ($1, 1, $1, '', $2)
"""


def test_new_migrations_keep_the_rules_and_have_numbers_of_their_own() -> None:
    assert {one.name: faults for one in NEW if (faults := faults_in(one))} == {}
    numbers = [one.name[:4] for one in known()]
    assert numbers == sorted(set(numbers))


async def test_waits_of_the_first_schema_go_on_in_the_newest(bare_server: BareServer) -> None:
    conn = await asyncpg.connect(bare_server.dsn)
    try:
        await conn.execute(Q["create_migrations"])
        first = known()[0]
        await conn.execute(first.sql)
        await conn.execute("insert into schema_migrations (name) values ($1)", first.name)
        old = [await _written(conn), await _written(conn)]
        assert await migrate(bare_server.dsn) == [one.name for one in known()[1:]]
        assert await pending(bare_server.dsn) == []
        loaded = await waits.load_waits(conn, [wait.address.key for wait in old])
        for wait in old:
            found = loaded[wait.address.key]
            assert found == wait
            one = apply(found, api(wait.address), NOW + 1).wait
            two = apply(one, kafka(wait.address), NOW + 2).wait
            assert two is not None
            assert two.outcomes["api_response"] is Outcome.RECEIVED
            assert two.ending is not None
        assert await conn.fetchval("select count(*) from wait_specs") == 1
    finally:
        await conn.close()


async def test_a_key_that_allowed_everything_still_does(bare_server: BareServer) -> None:
    conn = await asyncpg.connect(bare_server.dsn)
    try:
        await conn.execute(Q["create_migrations"])
        for one in known()[:3]:
            await conn.execute(one.sql)
            await conn.execute("insert into schema_migrations (name) values ($1)", one.name)
        await conn.execute("insert into tenants (slug) values ('acme')")
        everything = "waits:read waits:write callbacks:write inbox:read inbox:write metrics:read"
        for name, allowed in (("all", f"{everything} keys:write"), ("some", everything)):
            await conn.execute(OLD_KEY, name, allowed.split())
        await migrate(bare_server.dsn)
        rows = await conn.fetch("select name, permissions from api_keys")
        found = {row["name"]: set(row["permissions"]) for row in rows}
        assert found == {"all": {*Permission}, "some": set(everything.split())}
    finally:
        await conn.close()


async def _written(conn: asyncpg.Connection) -> Wait:
    wait = apply(None, register(address()), NOW).wait
    assert wait is not None
    await conn.execute(
        OLD_ROW,
        wait.address.key,
        wait.address.execution_id,
        wait.address.correlation_id,
        wait.node_id,
        encode_spec(wait.spec).decode(),
        wait.registered_by,
        wait.opened_at,
        wait.expires_at,
    )
    return wait
