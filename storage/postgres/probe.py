"""Checks that Postgres accepts rows: writes some of each kind and rolls back.

Where a single row is refused and no other was written with it, this tells the two apart: a row
that cannot be stored, and a server or a schema that takes none.
"""

import uuid

from core.events.event import Event
from core.shared.address import Address
from core.shared.media_types import JSON
from core.waits.messages import Offer, Register
from core.waits.spec import ExpectedEvent, Source, WaitSpec, encode_spec
from core.waits.transitions import apply
from storage.events import events
from storage.postgres.pool import Connection
from storage.waits.flush import NO_VERSION, FlushWriter, WaitChange

_SPEC = encode_spec(
    WaitSpec(events=(ExpectedEvent(name="probe", source=Source.API, label="probe"),))
)
# Belongs to no tenant's listing; it is never committed anyway.
_TENANT = 0
_EARLY_TTL = 60.0


async def probe_waits(conn: Connection) -> None:
    """Write a wait, a log entry and an early event, and roll back.

    Raises:
        Exception: Whatever Postgres or the driver has against it.
    """
    change = _change()
    transaction = conn.transaction()
    await transaction.start()
    try:
        kept = await FlushWriter("probe", _EARLY_TTL).flush(conn, [change])
    finally:
        await transaction.rollback()
    if change.key not in kept:
        raise OSError("Postgres did not keep a row that nobody else can have")


async def probe_events(conn: Connection) -> None:
    """Write an event, and roll back.

    Raises:
        Exception: Whatever Postgres or the driver has against it.
    """
    event = Event(
        tenant=_TENANT,
        event_id=uuid.uuid4().hex,
        type="probe",
        source="probe",
        time=0.0,
        data=b"{}",
        content_type=JSON,
    )
    transaction = conn.transaction()
    await transaction.start()
    try:
        flushed = await events.flush(conn, [event], [])
    finally:
        await transaction.rollback()
    if not flushed.stored:
        raise OSError("Postgres did not keep a row that nobody else can have")


def _change() -> WaitChange:
    address = Address(_TENANT, uuid.uuid4().hex, uuid.uuid4().hex)
    offer = Offer(
        address=address,
        turn_id="probe",
        event_id="probe",
        source=Source.API,
        label="probe",
        payload=b"{}",
    )
    early = apply(None, offer, 0.0)
    opened = apply(
        None, Register(address=address, turn_id="probe", node_id="probe", spec=_SPEC), 0.0
    )
    counted = apply(opened.wait, offer, 0.0)
    return WaitChange(
        key=address.key,
        tenant=_TENANT,
        stored_version=NO_VERSION,
        wait=counted.wait,
        entries=list(counted.entries),
        parked=list(early.parked),
    )
