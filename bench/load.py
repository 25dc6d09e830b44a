"""Correlations as callers make them: a registration, a callback, a Kafka event."""

import uuid
from dataclasses import dataclass, replace
from typing import Any

from core.shared.address import Address
from core.waits.config import WaitConfig
from core.waits.messages import Offer, Register, WaitMessage
from core.waits.spec import Source, encode_spec

CONFIG: dict[str, Any] = {
    "apiCall": {"url": "http://127.0.0.1:9/process"},
    "kafkaEvent": {"topic": "process.completed"},
    "timeout": 3600,
}
SPEC = encode_spec(WaitConfig.model_validate(CONFIG).to_spec())
API_BODY = b'{"status":"accepted","reference":"R-1001","amount":4200,"currency":"EUR"}'
KAFKA_BODY = b'{"event_type":"action.completed","parcels":2,"carrier":"north","weight":12.5}'


@dataclass(frozen=True, slots=True)
class Load:
    """Three messages for each correlation, in the order of their phases."""

    registers: list[WaitMessage]
    callbacks: list[WaitMessage]
    events: list[WaitMessage]

    @property
    def messages(self) -> int:
        """How many in all."""
        return len(self.registers) + len(self.callbacks) + len(self.events)


def make_load(correlations: int) -> Load:
    """Made before the clock starts: a generator's cost is not the system's."""
    return _load_of([_place(uuid.uuid4().hex) for _ in range(correlations)], fresh=True)


def make_chosen_load(correlations: int, shared: str | None) -> Load:
    """Ids that the caller chose, so that each is looked up; one correlation id for all, if given.

    Each callback comes before its registration.
    """
    places = [_place(shared or uuid.uuid4().hex) for _ in range(correlations)]
    load = _load_of(places, fresh=False)
    return replace(load, registers=load.callbacks, callbacks=load.registers)


def _place(correlation_id: str) -> Address:
    return Address(1, uuid.uuid4().hex, correlation_id)


def _load_of(places: list[Address], *, fresh: bool) -> Load:
    return Load(
        [_register(p, fresh=fresh) for p in places],
        [_api(p) for p in places],
        [_kafka(p) for p in places],
    )


def _register(place: Address, *, fresh: bool) -> Register:
    turn = uuid.uuid4().hex
    return Register(address=place, turn_id=turn, node_id="n", spec=SPEC, fresh=fresh)


def _api(place: Address) -> Offer:
    turn = uuid.uuid4().hex
    return Offer(
        address=place,
        turn_id=turn,
        event_id=f"api/s/{turn}",
        source=Source.API,
        label="external-service",
        payload=API_BODY,
    )


def _kafka(place: Address) -> Offer:
    turn = uuid.uuid4().hex
    return Offer(
        address=place,
        turn_id=turn,
        event_id=f"kafka/process.completed/0/{turn}",
        source=Source.KAFKA,
        label="process.completed",
        payload=KAFKA_BODY,
    )
