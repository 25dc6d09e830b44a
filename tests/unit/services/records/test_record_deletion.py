"""Deleting records with the details that belong to them."""

from dataclasses import replace

import pytest

from core.records.field import FieldDefinition, FieldType
from core.records.messages import RecordRefusal, RecordRefused, RecordSaved, RecordWrite, SaveRecord
from core.shared.errors import ConflictError
from services.records import record_deletion
from services.records.record_deletion import MAX_DETAILS, RecordDeletion
from services.records.record_writer import RecordOperation, WriteReply
from tests.unit.services.records.shop import TENANT, Shop, StoredDefinition, define

W = RecordWrite


async def shop_with(lines: int, notes: int = 0) -> Shop:
    shop = Shop()
    made = {
        "orders": [("o1", {"name": "Jo"})],
        "lines": [(f"l{n}", {"order": "o1"}) for n in range(lines)],
        "notes": [(f"n{n}", {"line": "l0"}) for n in range(notes)],
    }
    for name, records in made.items():
        creates = [RecordOperation(W.CREATE, one, fields) for one, fields in records]
        results = await shop.writer.write(TENANT, shop.collection(name), creates, None)
        assert all(isinstance(one.reply, RecordSaved) for one in results)
    shop.sent.clear()
    return shop


def deletion_in(shop: Shop) -> RecordDeletion:
    return RecordDeletion(shop.collections, shop.writer, shop.find_details, shop.version)


async def delete(shop: Shop, record_id: str = "o1", version: int | None = None) -> WriteReply:
    deletion = deletion_in(shop)
    operation = RecordOperation(W.DELETE, record_id, expected_version=version)
    return await deletion.delete(TENANT, shop.collection("orders"), operation, "ann")


def deleted(shop: Shop) -> int:
    return sum(getattr(one, "deleted_at", None) is not None for one in shop.records.values())


async def test_a_few_details_go_in_the_transaction_of_their_master() -> None:
    shop = await shop_with(MAX_DETAILS)
    assert isinstance(await delete(shop), RecordSaved)
    (message,) = shop.sent
    assert isinstance(message, SaveRecord)
    assert len(message.details) == MAX_DETAILS
    assert deleted(shop) == MAX_DETAILS + 1


async def test_many_details_go_before_their_master() -> None:
    shop = await shop_with(MAX_DETAILS + 1)
    assert isinstance(await delete(shop), RecordSaved)
    assert deleted(shop) == MAX_DETAILS + 2
    assert shop.sent[-1].address.record_id == "o1"


async def test_details_of_details_go_first() -> None:
    shop = await shop_with(2, notes=3)
    assert isinstance(await delete(shop), RecordSaved)
    assert deleted(shop) == 6


async def test_a_record_that_is_not_there_deletes_nothing() -> None:
    shop = await shop_with(1)
    reply = await delete(shop, "o9")
    assert isinstance(reply, RecordRefused)
    assert reply.refusal is RecordRefusal.RECORD_NOT_FOUND
    stale = await delete(shop, version=5)
    assert isinstance(stale, RecordRefused)
    assert stale.refusal is RecordRefusal.VERSION_MISMATCH
    assert deleted(shop) == 0


async def test_no_detail_goes_if_the_master_cannot() -> None:
    shop = await shop_with(MAX_DETAILS + 1)
    stale = await delete(shop, version=5)
    assert isinstance(stale, RecordRefused)
    assert (stale.refusal, stale.version) == (RecordRefusal.VERSION_MISMATCH, 1)
    assert deleted(shop) == 0


async def test_one_request_takes_a_bounded_number_of_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_deletion, "MAX_STEPS", 1)
    shop = await shop_with(MAX_DETAILS + 1)
    first = await delete(shop)
    assert isinstance(first, RecordRefused)
    assert first.refusal is RecordRefusal.DETAILS_REMAIN
    assert isinstance(await delete(shop), RecordSaved)


async def test_details_that_cannot_be_found_yet_keep_their_master() -> None:
    shop = await shop_with(1)
    shop.sources["lines"] = replace(shop.sources["lines"], unfilled=("order",))
    shop.collections.forget(None)
    with pytest.raises(ConflictError, match="the index of lines is being built"):
        await delete(shop)


async def test_levels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_deletion, "MAX_LEVELS", 0)
    reply = await delete(await shop_with(1, notes=1))
    assert isinstance(reply, RecordRefused)
    assert reply.refusal is RecordRefusal.DETAILS_REMAIN


async def test_one_request_takes_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = await shop_with(2, notes=1)
    monkeypatch.setattr(record_deletion, "MAX_SECONDS", -1.0)
    reply = await delete(shop)
    assert isinstance(reply, RecordRefused)
    assert reply.refusal is RecordRefusal.DETAILS_REMAIN
    assert deleted(shop) == 0


def parts(*masters: str) -> StoredDefinition:
    """Define records that belong to each other, by as many fields as there are names."""
    fields = (
        FieldDefinition(name=one, type=FieldType.MASTER_DETAIL, target="orders") for one in masters
    )
    return define(1, "orders", FieldDefinition(name="name", type=FieldType.STRING), *fields)


async def linked(*links: tuple[str, dict[str, str]]) -> Shop:
    """Create records, then let them lead to each other."""
    shop = Shop(parts("of", "by"))
    for write, fields_of in ((W.CREATE, lambda _: {}), (W.MERGE, dict)):
        made = [RecordOperation(write, one, fields_of(fields)) for one, fields in links]
        results = await shop.writer.write(TENANT, shop.collection("orders"), made, None)
        assert all(isinstance(one.reply, RecordSaved) for one in results)
    shop.sent.clear()
    return shop


@pytest.mark.parametrize(
    "links",
    [
        [("o1", {"of": "o1"})],
        [("o1", {"of": "o2"}), ("o2", {"of": "o1"})],
        [("o1", {"of": "o3"}), ("o2", {"of": "o1"}), ("o3", {"of": "o2"})],
        [("o1", {}), ("o2", {"of": "o1", "by": "o1"})],
        [("o1", {}), ("o2", {"of": "o1"}), ("o3", {"of": "o1", "by": "o2"})],
    ],
)
async def test_records_that_belong_to_each_other_are_deleted_once(
    links: list[tuple[str, dict[str, str]]],
) -> None:
    shop = await linked(*links)
    assert isinstance(await delete(shop), RecordSaved)
    assert deleted(shop) == len(links)
    gone = [one for message in shop.sent for one in (message.address, *message.details)]
    assert len(gone) == len(set(gone)) == len(links)


async def complete(shop: Shop, *names: str) -> list[RecordOperation] | None:
    operations = [RecordOperation(W.DELETE, name) for name in names]
    operations.append(RecordOperation(W.CREATE, "new"))
    return await deletion_in(shop).complete(TENANT, shop.collection("orders"), operations)


async def test_a_batch_takes_the_details_that_fit() -> None:
    whole = await complete(await shop_with(2), "o1")
    assert whole is not None
    assert [len(one.details) for one in whole] == [2, 0]
    own = await complete(await linked(("o1", {"of": "o1"})), "o1")
    assert own is not None
    assert [len(one.details) for one in own] == [0, 0]


async def test_a_batch_with_too_many_details_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await complete(await shop_with(2, notes=1), "o1") is None
    assert await complete(await shop_with(MAX_DETAILS + 1), "o1") is None
    monkeypatch.setattr(record_deletion, "MAX_BATCH_DETAILS", 1)
    assert await complete(await shop_with(2), "o1") is None


async def test_few_queries_find_the_details_of_many_masters() -> None:
    shop = await shop_with(2)
    assert await complete(shop, *(f"o{n}" for n in range(1_000))) is not None
    assert shop.searches <= 11
