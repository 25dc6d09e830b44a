"""What the outboxes of record changes give back: in order, by tenant, up to so many bytes."""

from dataclasses import replace

import msgspec
import pytest

from actors.maintenance.partitions import PartitionKeeper
from core.dispatch.job import ANCHOR
from core.dispatch.subscription import Binding
from core.operations.partitions import WEEKS_AHEAD, week_of
from core.records.field import FieldDefinition, FieldType
from core.records.record import ChangeKind, collection_ref
from storage.access import keys
from storage.dispatch import subscriptions
from storage.entities.loader import load_entities
from storage.postgres.pool import Pool
from storage.postgres.queries import Q
from storage.records import change_outbox, changes, collections
from storage.records.collections import CollectionRow, VersionNote
from tests.support.record_changes import ORDERS, LostError, RecordWriter
from tests.support.records import NOW, create_collection
from tests.support.subscriptions import stored_subscription

PLENTY = 1024 * 1024


async def test_both_outboxes_point_at_the_change_in_the_order_of_writing(
    pool: Pool, tenant: int
) -> None:
    orders = await RecordWriter.of(pool, tenant)
    orders.topic = "changes"
    written = [await orders.write(f"r{number % 3}", n=number) for number in range(10)]
    async with pool.acquire() as conn:
        messages = await change_outbox.next_messages(conn, 0, 100)
        events = await change_outbox.next_events(conn, 0, 10, 100)
        assert [row.change for row in messages] == written
        assert {row.topic for row in messages} == {"changes"}
        assert [row.change for row in events[tenant]] == written
        assert (await change_outbox.next_messages(conn, messages[3].outbox_id, 2)) == messages[4:6]
        assert await change_outbox.next_messages(conn, 0, 100, ["changes"]) == []
        await change_outbox.confirm_messages(conn, [row.outbox_id for row in messages[:4]])
        await change_outbox.confirm_events(conn, tenant, [row.outbox_id for row in events[tenant]])
    assert (await change_outbox.message_backlog(pool)).rows == 6
    assert (await change_outbox.event_backlog(pool)).rows == 0


async def test_a_large_backlog_is_counted_up_to_a_limit(
    pool: Pool, tenant: int, other: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for whose, count in ((tenant, 9), (other, 2)):
        orders = await RecordWriter.of(pool, whose)
        orders.topic = "changes"
        for number in range(count):
            await orders.write(f"r{number}")
    await pool.execute("update event_outbox set created_at = now() - interval '1 hour'"
                       " where outbox_id = (select min(outbox_id) from event_outbox)")  # fmt: skip
    monkeypatch.setattr(change_outbox, "MAX_COUNTED", 3)
    assert (await change_outbox.message_backlog(pool)).rows == 3
    events = await change_outbox.event_backlog(pool)
    assert events.rows == 3 + 2
    assert events.oldest == pytest.approx(3_600, abs=60)
    monkeypatch.setattr(change_outbox, "MAX_COUNTED_TENANTS", 1)
    assert (await change_outbox.event_backlog(pool)).rows == 3


async def test_nobody_to_tell_leaves_no_row(pool: Pool, tenant: int) -> None:
    orders = await RecordWriter.of(pool, tenant)
    orders.followed = frozenset({ChangeKind.DELETED})
    await orders.write("r1")
    await orders.write("r1", status="paid")
    assert (await change_outbox.event_backlog(pool)).rows == 0
    await orders.delete("r1")
    assert (await change_outbox.event_backlog(pool)).rows == 1
    assert (await change_outbox.message_backlog(pool)).rows == 0


async def test_a_lost_transaction_tells_nobody(pool: Pool, tenant: int) -> None:
    orders = await RecordWriter.of(pool, tenant)
    orders.topic = "changes"
    await orders.write("r1")
    await pool.execute("update records set version = 7")  # another owner was first
    with pytest.raises(LostError):
        await orders.write("r1", status="paid")
    assert (await change_outbox.message_backlog(pool)).rows == 1
    assert (await change_outbox.event_backlog(pool)).rows == 1


async def test_tenants_take_turns_whatever_one_of_them_has(
    pool: Pool, tenant: int, other: int
) -> None:
    third = await keys.create_tenant(pool, "third")
    for whose, count in ((tenant, 30), (other, 1), (third, 2)):
        orders = await RecordWriter.of(pool, whose)
        for number in range(count):
            await orders.write(f"r{number}")
    async with pool.acquire() as conn:
        found = await change_outbox.next_events(conn, 0, 10, 5)
        assert {whose: len(rows) for whose, rows in found.items()} == {
            tenant: 5,
            other: 1,
            third: 2,
        }
        assert [*await change_outbox.next_events(conn, 0, 2, 5)] == [tenant, other]
        assert [*await change_outbox.next_events(conn, other, 2, 5)] == [third]
        assert await change_outbox.next_events(conn, third, 2, 5) == {}


async def test_changes_are_read_up_to_so_many_bytes_and_one_more(pool: Pool, tenant: int) -> None:
    orders = await RecordWriter.of(pool, tenant)
    written = [await orders.write(f"r{number}", text="x" * 1_000) for number in range(5)]
    found = await changes.read(pool, written, 2_500)
    assert [one.record_id if one else None for one in found] == ["r0", "r1", "r2"]
    assert len(await changes.read(pool, written, 1)) == 1
    assert len(await changes.read(pool, written, PLENTY)) == 5


async def test_a_change_is_looked_up_in_its_week_alone(pool: Pool, tenant: int) -> None:
    await PartitionKeeper(pool, {changes.RECORD_CHANGES: 1e9}, lambda: NOW - 3_600).keep()
    orders = await RecordWriter.of(pool, tenant)
    columns = zip(*[await orders.write("r1")], strict=True)
    plan = await pool.fetch(f"explain (analyze) {Q['read_changes']}", *columns, PLENTY)
    scans = [line for (line,) in plan if "Index Scan using" in line]
    read = [line for line in scans if "never executed" not in line]
    assert len(scans) == WEEKS_AHEAD + 2  # the default partition as well
    assert [week_of("record_changes", NOW).name in line for line in read] == [True]


async def test_a_change_that_is_gone_is_none_and_others_are_nobodys(
    pool: Pool, tenant: int, other: int
) -> None:
    orders = await RecordWriter.of(pool, tenant)
    first, second = await orders.write("r1", status="open"), await orders.write("r1", status="paid")
    gone = first._replace(change_id="0000000000000")
    foreign = first._replace(tenant=other)
    found = await changes.read(pool, [gone, second, foreign, first], PLENTY)
    assert [one.version if one else None for one in found] == [None, 2, None, 1]
    change = found[1]
    assert change is not None
    assert (change.kind, change.user_id) == (ChangeKind.UPDATED, "ada")
    assert (change.data, change.before) == ('{"status":"paid"}', '{"status":"open"}')


async def define_again(pool: Pool, tenant: int, *fields: FieldDefinition) -> None:
    """Give orders other fields."""

    def edit(row: CollectionRow) -> CollectionRow:
        return replace(row, definition=msgspec.structs.replace(row.definition, fields=fields))

    done = await collections.change(pool, tenant, "orders", edit, VersionNote(), lambda *_: None)
    assert isinstance(done, CollectionRow)


async def test_a_collection_tells_its_names_and_what_ever_was_encrypted(
    pool: Pool, tenant: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = await create_collection(pool, tenant, ORDERS)
    pin = FieldDefinition(name="pin", type=FieldType.ENCRYPTED)
    monkeypatch.setattr(collections, "MAX_VERSIONS", 1)  # the version with the pin is forgotten
    for fields in ((*ORDERS.fields, pin), ORDERS.fields, ORDERS.fields[::-1]):
        await define_again(pool, tenant, *fields)
    found = await changes.read_collections(pool, [number, number, 12_345])
    assert [*found] == [number]
    assert (found[number].tenant, found[number].name) == ("own", "orders")
    assert found[number].encrypted == {"card", "pin"}


async def followed(pool: Pool, tenant: int, name: str = "orders") -> set[str]:
    (kinds,) = await changes.followed_kinds(pool, [(tenant, name)])
    return set(kinds)


async def test_a_collection_is_followed_by_type_by_pattern_and_by_the_anchor(
    pool: Pool, tenant: int, other: int
) -> None:
    assert await followed(pool, tenant) == set()
    created = Binding("muster:records:orders:created")
    mine = await stored_subscription(pool, tenant, "one", bindings=(created,))
    assert await followed(pool, tenant) == {"CREATED"}
    assert await followed(pool, tenant, "order") == set()
    assert await followed(pool, other) == set()
    any_deleted = Binding("muster:records:*:deleted")
    await stored_subscription(pool, tenant, "two", bindings=(any_deleted,))
    both = await changes.followed_kinds(pool, [(other, "orders"), (tenant, "lines")])
    assert both == [set(), {"DELETED"}]
    await subscriptions.pause(pool, tenant, mine.code)
    assert await followed(pool, tenant) == {"DELETED"}
    everything = Binding("*")
    await stored_subscription(pool, ANCHOR, "all", bindings=(everything,))
    assert await followed(pool, other) == {"CREATED", "UPDATED", "DELETED"}


async def test_a_collection_is_loaded_with_who_follows_it(pool: Pool, tenant: int) -> None:
    number = await create_collection(pool, tenant, ORDERS)
    binding = Binding("muster:records:orders:updated")
    await stored_subscription(pool, tenant, bindings=(binding,))
    ref = collection_ref(tenant, number)
    loaded = (await load_entities(pool, [ref]))[ref]
    assert loaded is not None
    assert loaded.followed == {"UPDATED"}  # type: ignore[attr-defined]
