"""A trial write of a wait: shows whether a row is at fault or the server accepts no rows at all."""

import uuid

from core.shared.address import Address
from core.waits.messages import Offer, Register
from core.waits.spec import ExpectedEvent, Source, WaitSpec, encode_spec
from core.waits.transitions import apply
from storage.postgres.pool import Connection
from storage.postgres.trial_write import NOT_KEPT, rolled_back
from storage.waits.flush import NO_VERSION, FlushWriter, WaitChange

_SPEC = encode_spec(
    WaitSpec(events=(ExpectedEvent(name="probe", source=Source.API, label="probe"),))
)
# No tenant has this number, and the row is never committed.
_TENANT = 0
_EARLY_TTL = 60.0


async def probe_waits(conn: Connection) -> None:
    """Write a wait, a log entry and an early event, and roll back; raise what goes wrong."""
    change = _change()
    async with rolled_back(conn):
        kept = await FlushWriter("probe", _EARLY_TTL).flush(conn, [change])
    if change.key not in kept:
        raise OSError(NOT_KEPT)


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
