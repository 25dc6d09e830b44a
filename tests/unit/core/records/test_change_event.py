"""Record change events: what they say, and what they never say."""

from typing import Any

import msgspec
import pytest

from core.events.event_type import RECORD_EVENTS, parse_code
from core.records.change_event import (
    GROUP_LENGTH,
    ChangedCollection,
    StoredChange,
    event_of,
    event_type,
    kafka_message,
)
from core.records.change_outbox import OutgoingChange, outbox_rows
from core.records.record import ChangeKind, RecordAddress, RecordChange
from core.records.validation import MASK

ORDERS = ChangedCollection(tenant="acme", collection_id="col-1", name="orders")


def change(**given: Any) -> StoredChange:
    usual: dict[str, Any] = {
        "tenant": 7,
        "collection_no": 3,
        "record_id": "r1",
        "change_id": "0KCHANGE00001",
        "version": 2,
        "kind": ChangeKind.UPDATED,
        "data": '{"status":"paid","total":10,"note":"x"}',
        "before": '{"status":"open","note":null}',
        "user_id": "ada",
        "at": 1_800_000_000.25,
    }
    return StoredChange(**{**usual, **given})


def told(one: StoredChange, collection: ChangedCollection = ORDERS) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(event_of(one, collection).encode())
    return document


def test_an_update_tells_what_is_what_was_and_what_changed() -> None:
    assert told(change()) == {
        "eventId": "0KCHANGE00001",
        "tenantId": "acme",
        "collectionId": "col-1",
        "collectionName": "orders",
        "recordId": "r1",
        "version": 2,
        "changeType": "UPDATED",
        "data": {"status": "paid", "total": 10, "note": "x"},
        "previousData": {"status": "open", "total": 10, "note": None},
        "changedFields": ["status", "note"],
        "userId": "ada",
        "timestamp": "2027-01-15T08:00:00.250000Z",
    }


def test_a_field_that_was_removed_is_in_the_previous_data() -> None:
    document = told(change(data='{"total":10}', before='{"status":"open"}'))
    assert document["data"] == {"total": 10}
    assert document["previousData"] == {"total": 10, "status": "open"}
    assert document["changedFields"] == ["status"]


@pytest.mark.parametrize("before", [None, '{"status":"open"}'])
@pytest.mark.parametrize("kind", [ChangeKind.CREATED, ChangeKind.DELETED])
def test_a_created_and_a_deleted_record_are_told_whole_without_previous_data(
    kind: ChangeKind, before: str | None
) -> None:
    document = told(change(kind=kind, before=before, user_id=None))
    assert document["data"] == {"status": "paid", "total": 10, "note": "x"}
    assert document["previousData"] is None
    assert document["changedFields"] == []
    assert document["userId"] is None


def test_numbers_keep_their_digits() -> None:
    event = event_of(
        change(data='{"n":1.10,"big":9007199254740993}', before='{"n":0.1e-7}'), ORDERS
    )
    assert b'"data":{"n":1.10,"big":9007199254740993}' in event.encode()
    assert b'"previousData":{"n":0.1e-7,"big":9007199254740993}' in event.encode()


def test_encrypted_values_are_masked_before_and_after() -> None:
    collection = msgspec.structs.replace(ORDERS, encrypted=frozenset({"card", "pin"}))
    event = event_of(
        change(data='{"card":"4111","pin":null,"x":1}', before='{"card":"4222"}'), collection
    )
    assert b"4111" not in event.encode()
    assert b"4222" not in event.encode()
    document = msgspec.json.decode(event.encode())
    assert document["data"] == {"card": MASK, "pin": None, "x": 1}
    assert document["previousData"] == {"card": MASK, "pin": None, "x": 1}
    assert document["changedFields"] == ["card"]


def test_what_is_no_document_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError):
        event_of(change(data="[]"), ORDERS)


@pytest.mark.parametrize("kind", ChangeKind)
def test_the_type_of_an_event_is_a_reserved_code(kind: ChangeKind) -> None:
    type_ = event_type("order-items", kind)
    assert type_ == f"muster:records:order-items:{kind.lower()}"
    assert type_.startswith(RECORD_EVENTS)
    assert parse_code(type_) is not None


def test_a_kafka_message_is_keyed_by_tenant_and_collection() -> None:
    event = event_of(change(), ORDERS)
    message = kafka_message(event, "emf.record.changed", "http://muster")
    assert (message.topic, message.key) == ("emf.record.changed", "acme:orders")
    assert message.value == event.encode()
    assert message.event_id == "0KCHANGE00001"
    assert dict(message.headers) == {
        "ce_specversion": b"1.0",
        "ce_id": b"0KCHANGE00001",
        "ce_source": b"http://muster",
        "ce_type": b"muster:records:orders:updated",
        "ce_subject": b"orders/r1",
        "ce_time": b"2027-01-15T08:00:00.250000Z",
        "content-type": b"application/json",
    }


def test_the_changes_of_a_record_are_one_group() -> None:
    assert event_of(change(), ORDERS).message_group == "orders/r1"
    long = "x" * (GROUP_LENGTH - 3)
    assert event_of(change(record_id=long), ORDERS).message_group == long


def outgoing(
    kind: ChangeKind, followed: set[ChangeKind], topic: str | None
) -> tuple[OutgoingChange, ...]:
    row = RecordChange(
        address=RecordAddress(7, 3, "r1"),
        change_id="0KCHANGE00001",
        version=1,
        kind=kind,
        data="{}",
        turn_id="t",
        at=0.0,
    )
    return outbox_rows(row, frozenset(followed), topic)


def test_a_change_that_nobody_follows_has_no_row() -> None:
    assert outgoing(ChangeKind.CREATED, {ChangeKind.DELETED}, None) == ()


def test_each_way_has_a_row() -> None:
    followed = {ChangeKind.UPDATED}
    where = RecordAddress(7, 3, "r1")
    kafka = OutgoingChange(where, "0KCHANGE00001", "changes")
    event = OutgoingChange(where, "0KCHANGE00001")
    assert outgoing(ChangeKind.CREATED, followed, "changes") == (kafka,)
    assert outgoing(ChangeKind.UPDATED, followed, "changes") == (kafka, event)
    assert outgoing(ChangeKind.UPDATED, followed, None) == (event,)
    assert kafka.weight > 0
