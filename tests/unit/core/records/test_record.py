"""The state of a record: its document as text, and the messages that made its last versions."""

import msgspec
import pytest

from core.records.collection import CollectionDefinition
from core.records.messages import (
    MAX_EXPECTED_CHARS,
    FieldProblem,
    RecordRefusal,
    RecordWrite,
    SaveAllRecords,
    SaveRecord,
    refused,
)
from core.records.record import (
    RECENT_TURNS,
    ChangeKind,
    Collection,
    Record,
    RecordAddress,
    RecordChange,
    RecordTurn,
    UniqueValue,
    add_turn,
)
from core.shared.address import shard_of
from core.shared.entities import Entity

ADDRESS = RecordAddress(1, 2, "r1")


def record(version: int = 1, recent_turns: bytes = b"") -> Record:
    return Record(
        address=ADDRESS,
        version=version,
        data={"name": "Zoë"},
        created_at=1.0,
        updated_at=1.0,
        recent_turns=recent_turns,
    )


def test_a_record_is_encoded_once() -> None:
    one = record()
    assert one.text == '{"name":"Zoë"}'
    assert one.text is one.text
    assert one.weight == 300 + len(one.text)


def test_the_turns_of_the_last_versions_are_known() -> None:
    turns = b""
    for number in range(1, 13):
        turns = add_turn(turns, f"turn-{number}")
    one = record(12, turns)
    assert len(turns) == 8 * RECENT_TURNS
    assert [one.version_of_turn(f"turn-{n}") for n in (12, 11, 5)] == [12, 11, 5]
    assert one.version_of_turn("turn-4") is None
    assert record().version_of_turn("turn-1") is None


def test_a_message_that_is_handled_again_is_known_by_what_was_found_of_it() -> None:
    one = msgspec.structs.replace(record(12), replayed="turn-1")
    assert one.version_of_turn("turn-1") == 12
    assert one.version_of_turn("turn-2") is None


def test_messages_name_the_turns_of_their_changes() -> None:
    saves = tuple(
        SaveRecord(address=ADDRESS, turn_id=f"t{n}", write=RecordWrite.MERGE, definition_version=1)
        for n in range(2)
    )
    together = SaveAllRecords(address=ADDRESS, turn_id="t", saves=saves)
    assert (saves[0].turn_ids, together.turn_ids) == (("t0",), ("t0", "t1"))
    turn = RecordTurn(ref=ADDRESS.turn_ref("t0"), version=3)
    assert turn.ref.key == (1, 2, "r1", "t0")


def test_an_address_keeps_its_key_on_the_way() -> None:
    raw = msgspec.msgpack.encode(ADDRESS)
    again = msgspec.msgpack.decode(raw, type=RecordAddress)
    assert (again, again.key) == (ADDRESS, ADDRESS.key)


@pytest.mark.parametrize(
    "other", [RecordAddress(2, 2, "r1"), RecordAddress(1, 3, "r1"), RecordAddress(1, 2, "r2")]
)
def test_every_id_counts_in_the_key(other: RecordAddress) -> None:
    assert other.key != ADDRESS.key
    assert other.ref != ADDRESS.ref


def test_records_spread_over_the_shards() -> None:
    shards = [shard_of(RecordAddress(1, 2, f"r{n}").key, 4) for n in range(400)]
    assert all(shards.count(shard) > 60 for shard in range(4))


def test_what_a_shard_hosts_are_entities() -> None:
    value = UniqueValue(ref=ADDRESS.unique_ref("email", b"hash"), record_id="r1")
    definition = CollectionDefinition(name="people", fields=(), version=3)
    collection = Collection(tenant=1, collection_no=2, collection_id="c1", definition=definition)
    entities: list[Entity] = [record(), value, collection]
    assert [one.version for one in entities] == [1, 1, 3]
    assert [one.ref for one in entities] == [
        ADDRESS.ref, ADDRESS.unique_ref("email", b"hash"), ADDRESS.collection_ref,
    ]  # fmt: skip
    assert all(one.due_at is None for one in entities)


def test_a_change_weighs_its_documents() -> None:
    change = RecordChange(
        address=ADDRESS, change_id="c", version=1, kind=ChangeKind.UPDATED, data="{}",
        before='{"a":1}', turn_id="t", at=1.0,
    )  # fmt: skip
    assert change.weight == 300 + 2 + 7
    assert msgspec.structs.replace(change, before=None).weight == 302


def test_a_refusal_says_a_bounded_amount() -> None:
    problem = FieldProblem("status", "one of " + "x" * 5_000)
    (shown,) = refused(RecordRefusal.INVALID_RECORD, problem).problems
    assert len(shown.expected) == MAX_EXPECTED_CHARS
    assert shown.expected.startswith("one of xxx")
    assert shown.expected.endswith("…")
