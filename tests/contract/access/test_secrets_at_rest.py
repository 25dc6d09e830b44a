"""No secret can be read in the database: not what is stored now, and not what was stored before."""

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

import asyncpg
import msgspec
import pytest

from actors.maintenance.maintenance_actor import EncryptionSweep
from core.access.secret_keys import key_id
from core.dispatch.job import ANCHOR, JobKey
from core.gathers.gather import Resource
from core.records.field import FieldDefinition, FieldType
from core.records.record import Record, RecordAddress
from storage.dispatch import jobs as dispatch_jobs
from storage.dispatch import subscriptions, webhook_secrets
from storage.dispatch.job_queue import JobQueue
from storage.encryption import keys as encryption_keys
from storage.encryption import reencryption, rotation
from storage.encryption.cipher import KeyRing, MissingKeyError, install, key_ring
from storage.encryption.keys import WrongKeyError
from storage.encryption.secret_tables import PLAIN, SECRET_TABLES
from storage.encryption.secret_values import encrypt_record_field, record_field_at
from storage.entities.loader import load_entities
from storage.entities.transactions import flush_transactions
from storage.gathers import resources
from storage.kafka import outbox
from storage.postgres import audit_log
from storage.postgres.pool import Pool
from tests.support.dispatch import JobFactory
from tests.support.plain_secrets import find_plain
from tests.support.records import changed, create_collection, created, transaction
from tests.support.stored_secrets import (
    AUTH,
    CARDS,
    EVERYTHING,
    HEADERS,
    MARKER,
    NEW,
    OLD,
    STRANGE,
    counts,
    read_all,
    store,
    store_plain,
    use,
)


@pytest.fixture(autouse=True)
def keys() -> Iterator[None]:
    before = key_ring()
    install(KeyRing(lambda: (OLD,)))
    yield
    install(before)


async def test_no_secret_is_in_any_column_and_all_come_back(
    database: str, pool: Pool, jobs: JobFactory
) -> None:
    job_id = await store(pool, jobs)
    assert await find_plain(database, MARKER) == []
    assert await read_all(pool, jobs, job_id) == EVERYTHING


async def test_every_column_that_holds_secrets_is_found_when_it_is_plain(
    database: str, pool: Pool, jobs: JobFactory
) -> None:
    """The search of the other tests finds what there is to be found."""
    await store_plain(pool, jobs)
    held = {f"{table.name}.{column.name}" for table in SECRET_TABLES for column in table.columns}
    assert set(await find_plain(database, MARKER)) == held


async def test_a_plain_row_is_read_until_it_is_encrypted(pool: Pool, jobs: JobFactory) -> None:
    job_id = await store_plain(pool, jobs)
    assert await read_all(pool, jobs, job_id) == EVERYTHING


async def test_old_rows_are_encrypted_in_the_background_once(
    database: str, pool: Pool, jobs: JobFactory
) -> None:
    job_id = await store_plain(pool, jobs)
    assert set(await counts(pool)) == {PLAIN}
    sweep = EncryptionSweep(pool)
    await sweep.run()
    assert await find_plain(database, MARKER) == []
    assert set(await counts(pool)) == {key_id(OLD)}
    assert await read_all(pool, jobs, job_id) == EVERYTHING
    assert not await encryption_keys.is_complete(pool)
    await sweep.run()  # finds nothing left, and says so
    assert await encryption_keys.is_complete(pool)


async def test_a_row_that_somebody_holds_is_encrypted_by_the_next_round(
    database: str, pool: Pool, jobs: JobFactory
) -> None:
    await store_plain(pool, jobs)
    rival = await asyncpg.connect(database)
    held = rival.transaction()
    await held.start()
    await rival.execute("select from dispatch_jobs for update")
    sweep = EncryptionSweep(pool)
    await sweep.run()
    assert set(await find_plain(database, MARKER)) == {
        "dispatch_jobs.headers",
        "dispatch_jobs.auth",
    }
    await held.rollback()
    await rival.close()
    await sweep.run()
    assert await find_plain(database, MARKER) == []
    assert not await encryption_keys.is_complete(pool)


async def test_a_row_that_changed_since_it_was_read_keeps_what_it_has(
    pool: Pool, jobs: JobFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store_plain(pool, jobs)
    fetch, changed = type(pool).fetch, {"type": "bearer", "token": "newer"}

    async def change_before(self: Pool, query: str, *args: Any) -> Any:
        if "replace_job_secrets" in query:
            text = msgspec.json.encode(changed).decode()
            await self.execute("update dispatch_jobs set auth = $1", text)
        return await fetch(self, query, *args)

    monkeypatch.setattr(type(pool), "fetch", change_before)
    walk = await reencryption.encrypt_plain(pool)
    monkeypatch.undo()
    assert walk.busy == 1
    assert await pool.fetchval("select auth::text from dispatch_jobs") == (
        msgspec.json.encode(changed).decode()
    )


async def test_rotation_brings_everything_under_the_new_key(pool: Pool, jobs: JobFactory) -> None:
    job_id = await store(pool, jobs)
    await encryption_keys.check(pool)
    use(NEW, OLD)
    assert await read_all(pool, jobs, job_id) == EVERYTHING
    done = await rotation.rotate(pool)
    assert (done.key_id, done.released) == (key_id(NEW), [key_id(OLD)])
    assert set(await counts(pool)) == {key_id(NEW)}
    use(NEW)
    await encryption_keys.check(pool)
    assert await read_all(pool, jobs, job_id) == EVERYTHING
    again = await rotation.rotate(pool)
    assert (again.renewed, again.released) == (0, [])


async def test_rotations_and_removals_of_keys_are_audited_without_the_keys(
    pool: Pool, jobs: JobFactory
) -> None:
    await store(pool, jobs)
    await encryption_keys.check(pool)
    use(NEW, OLD)
    await rotation.rotate(pool)
    await rotation.remove(pool, key_id(OLD))
    entries = await audit_log.page(pool, ANCHOR, None, 10)
    assert [(one.actor, one.action, one.object) for one in reversed(entries)] == [
        ("command line", "encryption_key.rotation_started", key_id(NEW)),
        ("command line", "encryption_key.rotated", key_id(NEW)),
        ("command line", "encryption_key.removed", key_id(OLD)),
    ]
    told = repr(await pool.fetch("select * from audit_log"))
    for key in (OLD, NEW):
        assert key.hex() not in told
        assert base64.b64encode(key).decode() not in told


async def test_a_rotation_that_does_not_end_is_audited_as_started(
    pool: Pool, jobs: JobFactory
) -> None:
    use(STRANGE)
    await jobs.post(auth=AUTH)
    use(NEW, OLD)
    await rotation.rotate(pool)
    entries = await audit_log.page(pool, ANCHOR, None, 10)
    assert [one.action for one in entries] == ["encryption_key.rotation_started"]


async def test_a_walk_goes_from_record_to_record_and_from_collection_to_collection(
    pool: Pool, jobs: JobFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reencryption, "BATCH", 2)
    for name in ("first", "second"):
        number = await create_collection(
            pool, jobs.tenant, msgspec.structs.replace(CARDS, name=name)
        )
        addresses = [RecordAddress(jobs.tenant, number, f"r{n}") for n in range(5)]
        made = [created(one, card=encrypt_record_field(one, "card", MARKER)) for one in addresses]
        async with pool.acquire() as conn:
            await flush_transactions(conn, [transaction((None, one)) for one in made])
    assert await counts(pool) == {key_id(OLD): 10}
    use(NEW, OLD)
    assert (await rotation.rotate(pool)).renewed == 10
    assert await counts(pool) == {key_id(NEW): 10}


async def test_a_change_that_was_decided_before_does_not_write_old_values_back(
    pool: Pool, jobs: JobFactory
) -> None:
    number = await create_collection(pool, jobs.tenant, CARDS)
    address = RecordAddress(jobs.tenant, number, "r1")
    made = created(address, card=encrypt_record_field(address, "card", MARKER))
    other = created(RecordAddress(jobs.tenant, number, "r2"), name="Jo")
    async with pool.acquire() as conn:
        await flush_transactions(conn, [transaction((None, one)) for one in (made, other)])
        use(NEW, OLD)
        assert (await rotation.rotate(pool)).renewed == 1
        alone = transaction((made, changed(made, "t2", name="Jo")), turn_id="t2")
        assert await flush_transactions(conn, [alone]) == {0}
        together = transaction(
            (other, changed(other, "t2", name="Al")),
            (made, changed(made, "t2", name="Al")),
            turn_id="t2",
        )
        assert await flush_transactions(conn, [together]) == {0}
        assert await counts(pool) == {key_id(NEW): 1}
        loaded = await load_entities(conn, [made.ref, other.ref])
        assert loaded[other.ref] == other
        current = loaded[made.ref]
        assert isinstance(current, Record)
        assert (current.version, current.revision) == (1, 1)
        again = transaction((current, changed(current, "t2", name="Jo")), turn_id="t2")
        assert await flush_transactions(conn, [again]) == set()
    assert await counts(pool) == {key_id(NEW): 1}


async def test_texts_that_look_encrypted_do_not_stop_a_rotation(
    pool: Pool, jobs: JobFactory
) -> None:
    """They were stored before their field became ENCRYPTED, or belong to another record."""
    number = await create_collection(pool, jobs.tenant, CARDS)
    one, other = (RecordAddress(jobs.tenant, number, name) for name in ("r1", "r2"))
    moved = encrypt_record_field(other, "card", MARKER)
    cards = ("enc:1:", "enc:1:k:x", f"enc:1:{'z' * 16}:{'A' * 40}", f"enc:1:{'0' * 16}:ü", moved)
    made = [created(RecordAddress(jobs.tenant, number, f"c{n}"), card=card)
            for n, card in enumerate(cards)]  # fmt: skip
    made.append(created(one, card=encrypt_record_field(one, "card", MARKER)))
    async with pool.acquire() as conn:
        await flush_transactions(conn, [transaction((None, each)) for each in made])
    use(OLD)
    await encryption_keys.check(pool)
    use(NEW, OLD)
    done = await rotation.rotate(pool)
    assert (done.renewed, done.unreadable, done.released) == (5, {}, [key_id(OLD)])
    stored = dict(await pool.fetch("select record_id, data ->> 'card' from records"))
    assert stored["c4"] == moved
    for n, card in enumerate(cards[:4]):
        location = record_field_at(jobs.tenant, number, f"c{n}", "card")
        assert key_ring().decrypt(stored[f"c{n}"], location).decode() == card


async def test_what_is_still_encrypted_of_a_field_that_once_was_is_renewed(
    pool: Pool, jobs: JobFactory
) -> None:
    card = FieldDefinition(name="card", type=FieldType.STRING)
    number = await create_collection(
        pool, jobs.tenant, msgspec.structs.replace(CARDS, fields=(card,), masked=("card",))
    )
    one, other = (RecordAddress(jobs.tenant, number, name) for name in ("r1", "r2"))
    secret = created(one, card=encrypt_record_field(one, "card", MARKER))
    plain = created(other, card="plain by now")
    async with pool.acquire() as conn:
        await flush_transactions(conn, [transaction((None, each)) for each in (secret, plain)])
    use(NEW, OLD)
    assert (await rotation.rotate(pool)).renewed == 1
    assert await counts(pool) == {key_id(NEW): 1}
    stored = dict(await pool.fetch("select record_id, data ->> 'card' from records"))
    assert stored["r2"] == "plain by now"


async def test_rotation_while_others_write(database: str, jobs: JobFactory, pool: Pool) -> None:
    for _ in range(20):
        await jobs.post(headers=HEADERS, auth=AUTH)
    writing = True

    async def write() -> int:
        written = 0
        while writing:
            await jobs.post(headers=HEADERS, auth=AUTH)
            written += 1
            await asyncio.sleep(0)
        return written

    writers = [asyncio.create_task(write()) for _ in range(3)]
    await asyncio.sleep(0.2)
    use(NEW, OLD)
    done = await rotation.rotate(pool)
    writing = False
    written = sum(await asyncio.gather(*writers))
    assert done.renewed >= 20
    assert set(await counts(pool)) == {key_id(NEW)}
    total = await pool.fetchval("select count(*) from dispatch_jobs")
    assert total == 20 + written
    use(NEW)
    found = await dispatch_jobs.read_many(
        pool, jobs.tenant, [row[0] for row in await pool.fetch("select job_id from dispatch_jobs")]
    )
    assert all(job.headers == HEADERS for job in found)


class KilledError(Exception):
    """As if the process had ended."""


@pytest.mark.parametrize("after", range(5))
async def test_a_rotation_that_was_killed_is_finished_by_the_next(
    pool: Pool, jobs: JobFactory, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    job_id = await store(pool, jobs)
    await encryption_keys.check(pool)
    use(NEW, OLD)
    fetch, left = type(pool).fetch, after

    async def killed(self: Pool, query: str, *args: Any) -> Any:
        nonlocal left
        if "/* replace_" in query:
            left -= 1
            if left < 0:
                raise KilledError
        return await fetch(self, query, *args)

    monkeypatch.setattr(type(pool), "fetch", killed)
    with pytest.raises(KilledError):
        await rotation.rotate(pool)
    monkeypatch.undo()
    assert await read_all(pool, jobs, job_id) == EVERYTHING
    assert key_id(OLD) in await encryption_keys.in_use(pool)
    await rotation.rotate(pool)
    assert set(await counts(pool)) == {key_id(NEW)}
    assert list(await encryption_keys.in_use(pool)) == [key_id(NEW)]
    use(NEW)
    assert await read_all(pool, jobs, job_id) == EVERYTHING


async def test_a_rotation_without_the_old_key_changes_nothing(pool: Pool, jobs: JobFactory) -> None:
    await store(pool, jobs)
    await encryption_keys.check(pool)
    use(NEW)
    with pytest.raises(WrongKeyError, match=key_id(OLD)):
        await rotation.rotate(pool)
    assert set(await counts(pool)) == {key_id(OLD)}


async def test_a_secret_under_a_lost_key_is_reported_and_the_rest_rotated(
    pool: Pool, jobs: JobFactory
) -> None:
    use(STRANGE)
    await jobs.post(auth=AUTH)
    use(OLD)
    await jobs.post(auth=AUTH)
    use(NEW, OLD)
    done = await rotation.rotate(pool)
    assert done.unreadable == {key_id(STRANGE): 1}
    assert done.released == []
    assert await counts(pool) == {key_id(NEW): 1, key_id(STRANGE): 1}


async def test_two_rotations_do_not_run_at_once(database: str, pool: Pool) -> None:
    async with rotation.sole_rotation(pool):
        with pytest.raises(Exception, match="under way"):
            async with rotation.sole_rotation(pool):
                pass
    async with rotation.sole_rotation(pool):
        pass


async def test_an_instance_with_another_key_does_not_start(pool: Pool) -> None:
    await encryption_keys.check(pool)
    use(STRANGE)
    with pytest.raises(WrongKeyError, match=f"{key_id(OLD)}.*MUSTER_SECRET_KEY"):
        await encryption_keys.check(pool)
    # It has left nothing behind that would stop the right one.
    use(OLD)
    await encryption_keys.check(pool)


async def test_what_cannot_be_decrypted_is_shown_without_it_and_can_be_replaced(
    pool: Pool, jobs: JobFactory
) -> None:
    job_id = await store(pool, jobs)
    use(STRANGE)
    found = await subscriptions.read(pool, jobs.tenant, "orders")
    assert found is not None
    assert found.unreadable is not None
    assert key_id(OLD) in found.unreadable
    with pytest.raises(MissingKeyError, match=key_id(OLD)):
        await subscriptions.pause(pool, jobs.tenant, "orders")
    assert (await dispatch_jobs.read(pool, jobs.tenant, job_id)).headers == {}  # type: ignore[union-attr]
    assert (await resources.read(pool, jobs.tenant, "shop")).resource.headers == {}  # type: ignore[union-attr]
    with pytest.raises(MissingKeyError):
        await resources.find(pool, jobs.tenant, ["shop"])
    assert not await resources.put(pool, jobs.tenant, "shop", Resource(url="http://127.0.0.1:9/"))
    live = await webhook_secrets.rotate(pool, jobs.tenant, webhook_secrets.OWN, b"new" * 8, 0.0)
    assert [one.secret for one in live or ()] == [b"new" * 8]
    assert await subscriptions.drop(pool, jobs.tenant, "orders") == "orders"


async def test_a_ciphertext_that_was_moved_to_another_tenant_is_not_read(
    pool: Pool, jobs: JobFactory, others: JobFactory
) -> None:
    await jobs.post(auth=AUTH)
    stolen = await others.post(auth={"type": "bearer", "token": "own"})
    await pool.execute(
        "update dispatch_jobs set auth = (select auth from dispatch_jobs where tenant_id = $1)"
        " where tenant_id = $2",
        jobs.tenant,
        others.tenant,
    )
    (claimed,) = await JobQueue(pool, others.pool_no, "test", 60.0).claim(
        [JobKey(others.tenant, stolen)]
    )
    assert claimed.auth is None
    assert claimed.unreadable is not None
    assert "another row" in claimed.unreadable


async def test_a_job_without_secrets_needs_no_key(pool: Pool, jobs: JobFactory) -> None:
    job_id = await jobs.post()
    row = await pool.fetchrow("select headers, auth from dispatch_jobs where job_id = $1", job_id)
    assert tuple(row) == (None, None)


async def test_keys_are_checked_while_a_relay_runs(pool: Pool) -> None:
    async with pool.acquire() as relay, asyncio.timeout(20):
        assert await outbox.claim(relay)
        await encryption_keys.check(pool)
        await relay.execute("select pg_advisory_unlock_all()")
