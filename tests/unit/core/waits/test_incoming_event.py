from typing import Any

import msgspec
import pytest

from core.waits.incoming_event import (
    JSON,
    IncomingEvent,
    deduplication_id_of,
    offer_of,
    unaddressed_event,
)
from core.waits.messages import Reason, Verdict
from core.waits.spec import DEFAULT_IDS, IdFields, Source
from tests.unit.core.waits.builders import ADDRESS


def arrival(raw: bytes = b"{}", body: Any = None, **more: Any) -> IncomingEvent:
    return IncomingEvent(source=Source.API, label="bank", raw=raw, body=body, headers={}, **more)


@pytest.mark.parametrize(
    ("door", "given", "expected"),
    [
        ("api", "e1", "api/bank/e1"),
        ("api", None, "api/bank/turn"),
        ("http", "e1", "http/bank/e1"),
        ("kafka", "3/17", "kafka/bank/3/17"),
    ],
)
def test_an_event_is_known_by_its_door_origin_and_id(
    door: str, given: str | None, expected: str
) -> None:
    assert deduplication_id_of(arrival(channel=door, event_id=given), "turn") == expected


def test_data_without_ids_is_kept_to_the_byte() -> None:
    raw = b'{"paid":  1.10}'
    offer = offer_of(ADDRESS, DEFAULT_IDS, arrival(raw, {"paid": 1.1}), "t")
    assert (offer.payload, offer.content_type) == (raw, JSON)


def test_ids_are_taken_out_of_the_data() -> None:
    raw = (
        b'{"correlation_id":"order", "execution_id":"run", "paid":1000000000000000000000000000000}'
    )
    offer = offer_of(ADDRESS, DEFAULT_IDS, arrival(raw, msgspec.json.decode(raw)), "t")
    assert offer.payload == b'{"paid":1000000000000000000000000000000}'


@pytest.mark.parametrize(
    ("field", "raw"),
    [
        ("ref", b'{"ref": "order", "paid": 1}'),
        ("ref", b'{"r\\u0065f": "order", "paid": 1}'),
        ("meta.ref", b'{"meta.ref": "order", "paid": 1}'),
        ("refs[0]", b'{"refs[0]": "order", "paid": 1}'),
        ("re..f", b'{"re..f": "order", "paid": 1}'),
        ("r\u00e9f", '{"r\u00e9f": "order", "paid": 1}'.encode()),
    ],
)
def test_an_id_is_taken_out_however_its_name_is_spelled(field: str, raw: bytes) -> None:
    fields = IdFields(correlation_field=field)
    offer = offer_of(ADDRESS, fields, arrival(raw, msgspec.json.decode(raw)), "t")
    assert offer.payload == b'{"paid":1}'


def test_bytes_that_are_no_json_stay_what_they_are() -> None:
    raw = b"\x00\x01"
    offer = offer_of(ADDRESS, DEFAULT_IDS, arrival(raw, None, content_type="application/avro"), "t")
    assert (offer.payload, offer.content_type) == (raw, "application/avro")


def test_an_event_without_ids_is_kept_under_none() -> None:
    parked = unaddressed_event(7, arrival(b"1", 1, event_id="e"), "t", 5.0)
    assert (parked.address.tenant, parked.address.correlation_id) == (7, "")
    assert (parked.verdict, parked.reason) == (Verdict.REJECTED, Reason.MISSING_ID)
    assert (parked.event_id, parked.payload, parked.at) == ("api/bank/e", b"1", 5.0)


def test_what_is_printed_of_an_event_shows_no_header_and_no_data() -> None:
    secret = {"authorization": "Bearer 4712"}
    shown = repr(msgspec.structs.replace(arrival(b"4711"), headers=secret))
    assert shown.startswith("IncomingEvent(")
    assert "471" not in shown
