"""Writing records: what is checked, encrypted and numbered before a shard decides."""

from typing import Any

import msgspec
import pytest

from core.records.field import FieldDefinition, FieldType
from core.records.messages import (
    RecordRefusal,
    RecordRefused,
    RecordSaved,
    RecordWrite,
    SaveAllRecords,
    SaveRecord,
)
from core.records.record import RecordAddress
from core.shared.errors import InvalidError
from core.waits.messages import RefusalKind, RefusedReply
from services.records.record_writer import MAX_ATOMIC_WORK, RecordOperation, RecordWriting
from tests.unit.services.records.shop import LINES, ORDERS, TENANT, Shop, define

W = RecordWrite


async def write(
    shop: Shop, *operations: RecordOperation, name: str = "orders", atomic: bool = False
) -> list[RecordWriting]:
    chosen = shop.collection(name)
    return await shop.writer.write(TENANT, chosen, operations, "ann", atomic=atomic)


def create(record_id: str | None = None, **fields: Any) -> RecordOperation:
    return RecordOperation(W.CREATE, record_id, {"name": "Jo", **fields})


def reasons(results: list[RecordWriting]) -> list[RecordRefusal | None]:
    return [one.reply.refusal if isinstance(one.reply, RecordRefused) else None for one in results]


async def test_new_records_have_ids_numbers_and_a_user() -> None:
    shop = Shop()
    first, second = await write(shop, create(), create("own"))
    assert (first.record_id, second.record_id) == ("r1", "own")
    assert shop.record(1, "r1").data["number"] == "O-001"
    assert shop.record(1, "own").data["number"] == "O-002"
    assert shop.record(1, "own").created_by == "ann"
    sent = [one for one in shop.sent if isinstance(one, SaveRecord)]
    assert [one.fresh for one in sent] == [True, False]
    (changed,) = await write(shop, RecordOperation(W.MERGE, "own", {"name": "Al"}))
    assert isinstance(changed.reply, RecordSaved)
    assert changed.reply.data["number"] == "O-002"


async def test_numbers_beyond_a_block_are_leased_again() -> None:
    shop = Shop()
    results = await write(shop, *(create() for _ in range(250)))
    found = [one.reply.data["number"] for one in results if isinstance(one.reply, RecordSaved)]
    assert found == [f"O-{n:03}" for n in range(1, 251)]
    (last,) = await write(shop, create())
    assert isinstance(last.reply, RecordSaved)
    assert last.reply.data["number"] == "O-251"


async def test_a_secret_leaves_the_process_encrypted_alone() -> None:
    shop = Shop()
    await write(shop, create("o1", card="4711-secret"))
    assert shop.record(1, "o1").data["card"] == "enc:o1:card:terces-1174"
    assert b"4711-secret" not in msgspec.msgpack.encode(shop.sent)
    await write(shop, RecordOperation(W.MERGE, "o1", {"card": None}))
    assert "card" not in shop.record(1, "o1").data


async def test_what_cannot_be_valid_is_not_sent() -> None:
    shop = Shop()
    results = await write(shop, create(nmae=1), create(), create("no id"))
    invalid = RecordRefusal.INVALID_RECORD
    assert reasons(results) == [invalid, None, invalid]
    assert len(shop.sent) == 1


async def test_all_or_none() -> None:
    shop = Shop()
    results = await write(shop, create("o1"), create("o2", nmae=1), atomic=True)
    assert reasons(results) == [RecordRefusal.BATCH_REFUSED, RecordRefusal.INVALID_RECORD]
    assert shop.sent == []
    await write(shop, create("o9", code="c1"))
    results = await write(shop, create("o1"), create("o2", code="c1"), atomic=True)
    assert reasons(results) == [RecordRefusal.BATCH_REFUSED, RecordRefusal.VALUE_NOT_UNIQUE]
    results = await write(shop, create("o1"), create("o2", code="c2"), atomic=True)
    assert reasons(results) == [None, None]
    assert isinstance(shop.sent[-1], SaveAllRecords)


async def test_all_or_none_is_bounded_by_what_a_shard_has_to_do() -> None:
    shop = Shop()
    formula = FieldDefinition(name="twice", type=FieldType.FORMULA, formula="name + name")
    shop.sources["orders"] = define(1, "orders", *ORDERS.definition.fields, formula)
    half = [create(f"o{n}") for n in range(MAX_ATOMIC_WORK // 2)]
    assert set(reasons(await write(shop, *half, atomic=True))) == {None}
    shop.sent.clear()
    with pytest.raises(InvalidError, match=r"at most 1,000 records, details .* there are 1,002"):
        await write(shop, *half, create("more"), atomic=True)
    lines = tuple(RecordAddress(TENANT, 2, f"l{n}") for n in range(100))
    deletions = [RecordOperation(W.DELETE, f"o{n}", details=lines) for n in range(10)]
    with pytest.raises(InvalidError, match="there are 1,010: send fewer"):
        await write(shop, *deletions, atomic=True)
    assert shop.sent == []
    assert set(reasons(await write(shop, *half, create("more")))) == {
        RecordRefusal.RECORD_EXISTS,
        None,
    }


async def test_a_full_shard_refuses_all_of_a_batch() -> None:
    shop = Shop()
    full = RefusedReply(kind=RefusalKind.OVERLOADED, detail="full")

    async def refuse(messages: list[Any]) -> list[Any]:
        return [full for _ in messages]

    shop.writer._send_many = refuse
    results = await write(shop, create("o1"), create("o2"), atomic=True)
    assert [one.reply for one in results] == [full, full]


async def test_a_write_is_prepared_again_for_a_changed_collection() -> None:
    shop = Shop()
    old = shop.collection("orders")
    fields = ORDERS.definition.fields
    shop.sources["orders"] = define(1, "orders", *fields, version=2)
    (result,) = await shop.writer.write(TENANT, old, [create("o1")], None)
    assert isinstance(result.reply, RecordSaved)
    assert [one.definition_version for one in shop.sent if isinstance(one, SaveRecord)] == [1, 2]


async def test_a_detail_names_its_master() -> None:
    shop = Shop()
    line = RecordOperation(W.CREATE, "l1", {"order": "o1"})
    assert reasons(await write(shop, line, name="lines")) == [RecordRefusal.INVALID_RECORD]
    await write(shop, create("o1"))
    assert reasons(await write(shop, line, name="lines")) == [None]


async def test_collections_are_read_once_until_they_change() -> None:
    shop = Shop()
    assert await shop.collections.find(2, "orders") is None
    first = await shop.collections.find(TENANT, "orders")
    assert await shop.collections.find(TENANT, "orders") is first
    shop.collections.forget(2)
    assert await shop.collections.find(TENANT, "orders") is first
    shop.collections.forget(None)
    assert await shop.collections.find(TENANT, "orders") is not first
    links = await shop.collections.details(TENANT, "orders")
    assert [(one.collection.name, one.slot) for one in links] == [("lines", 0)]
    assert LINES.collection_no == links[0].collection.collection_no
