"""Event intake: checked, stored, offered, in this order."""

import asyncio
from typing import Any

import pytest

from core.events.event import Event
from core.shared.errors import OverloadedError, UnavailableError
from core.waits.messages import (
    Offer,
    OfferReply,
    Reason,
    RefusalKind,
    RefusedReply,
    Reply,
    Verdict,
    WaitMessage,
)
from core.waits.spec import Source
from handlers.schemas.interface import Mismatch
from services.events import intake, validator
from services.events.intake import CloudEventIntake, IngestedEvent, RejectedEvent, offer_to_wait
from services.events.validator import ValidationStatus
from services.events.writer import StoredEvent
from telemetry.registry import Metrics, MetricsSnapshot
from tests.support.happenings import event

FINE = validator.ValidationResult(ValidationStatus.FINE, accepted=True)
WRONG = (Mismatch("/a", "a text"),)


class World:
    """A judge, a writer and the waits."""

    def __init__(self, patience: float = 30.0) -> None:
        self.slow: dict[str, asyncio.Event] = {}
        self.verdicts: dict[str, validator.ValidationResult] = {}
        self.judged: list[tuple[Any, ...]] = []
        self.clients: list[str | None] = []
        self.stored: list[Event] = []
        self.first: dict[str, Event] = {}
        self.offers: list[Offer] = []
        self.replies: list[Reply] = []
        self.away = False
        self.metrics = Metrics("r")
        self.service = CloudEventIntake(
            self, self, self.send_many, lambda: "turn", self.metrics, patience
        )

    async def ingest(self, events: list[Event]) -> list[IngestedEvent]:
        ingested = await self.service.ingest(events)
        assert not isinstance(ingested, RejectedEvent)
        return ingested

    async def check(
        self,
        tenant: int,
        code: str,
        version: str | None,
        content_type: str | None,
        data: bytes,
        client: str | None = None,
    ) -> validator.ValidationResult:
        self.judged.append((tenant, code, version, content_type, data))
        self.clients.append(client)
        if code in self.slow:
            await self.slow[code].wait()
        return self.verdicts.get(code, FINE)

    async def put(self, events: list[Event]) -> list[StoredEvent]:
        if self.away:
            raise UnavailableError("not now")
        answers = []
        for one in events:
            first = self.first.setdefault(one.deduplication_id or one.event_id, one)
            if first is one:
                self.stored.append(one)
            answers.append(StoredEvent(first, first is not one, 2 if first is one else 0))
        return answers

    async def send_many(self, messages: list[WaitMessage]) -> list[Reply]:
        for message in messages:
            assert isinstance(message, Offer)
            assert message.event_id.rpartition("/")[2] in {one.event_id for one in self.stored}
            self.offers.append(message)
        fine = OfferReply(verdict=Verdict.MATCHED, reason=Reason.EXPECTED, event="paid")
        return self.replies or [fine] * len(messages)

    def counted(self, name: str) -> float:
        page = self.metrics.render(MetricsSnapshot(), requests=0, streams=0).decode()
        (line,) = (line for line in page.splitlines() if line.startswith(name))
        return float(line.rpartition(" ")[2])


def routed(**more: Any) -> Event:
    return event(execution_id="run", correlation_id="order", **more)


# Types


async def test_an_event_keeps_the_version_it_was_held_against() -> None:
    world = World()
    world.verdicts["v"] = validator.ValidationResult(
        ValidationStatus.FINE, accepted=True, version="1.1"
    )
    given = [event(type="v"), event(type="v", type_version="1.1"), event(type_version="7.0")]
    taken = await world.ingest(given)
    assert [one.event.type_version for one in taken] == ["1.1", "1.1", "7.0"]
    assert taken[1].event is given[1]


@pytest.mark.parametrize(
    ("more", "seen"),
    [
        ({"data": b"1", "content_type": "application/json"}, ("application/json", b"1")),
        ({}, (None, b"null")),
        ({"content_type": "text/json"}, ("text/json", b"null")),
        ({"content_type": "text/xml"}, ("text/xml", b"")),
    ],
)
async def test_data_is_held_against_its_type(more: dict[str, Any], seen: tuple[Any, ...]) -> None:
    world = World()
    await world.ingest([event(type_version="1.0", **more)])
    assert world.judged == [(1, "order.created", "1.0", *seen)]


async def test_the_client_that_an_event_names_is_told() -> None:
    world = World()
    await world.ingest([event(context=(("clientId", "acme"),)), event()])
    assert world.clients == ["acme", None]


async def test_what_only_warns_is_stored_and_told() -> None:
    world = World()
    world.verdicts["w"] = validator.ValidationResult(
        ValidationStatus.WARNED, accepted=True, mismatches=WRONG
    )
    taken = await world.ingest([event(), event(type="w")])
    assert [one.warnings for one in taken] == [(), WRONG]
    assert len(world.stored) == 2
    assert world.counted("muster_events_warned_total") == 1


async def test_one_that_is_refused_refuses_all_and_stores_nothing() -> None:
    world = World()
    world.verdicts["no"] = validator.ValidationResult(
        ValidationStatus.REFUSED, accepted=False, mismatches=WRONG
    )
    rejected = await world.service.ingest([event(), wrong := event(type="no"), event()])
    assert rejected == RejectedEvent(1, wrong, world.verdicts["no"])
    assert world.stored == []
    assert world.counted('muster_events_posted_total{outcome="refused"') == 3


async def test_a_long_judgement_lets_others_have_their_turn() -> None:
    world = World()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    await asyncio.sleep(0)
    try:
        await world.ingest([event() for _ in range(20_000)])
    finally:
        running.cancel()
    assert turns > 2


async def test_schemas_that_take_too_long_together_store_nothing() -> None:
    world = World(patience=0.05)
    world.slow["slow"] = asyncio.Event()
    with pytest.raises(UnavailableError, match="schemas took too long") as raised:
        await world.ingest([event(), event(type="slow"), event()])
    assert raised.value.retry_after == 2
    assert [code for _, code, *_ in world.judged] == ["order.created", "slow"]
    assert world.stored == []


async def test_a_type_that_the_database_does_not_tell_in_time_is_not_called_a_slow_schema() -> None:
    world = World()

    async def check(*_: Any) -> validator.ValidationResult:
        raise TimeoutError

    world.check = check  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        await world.ingest([event()])


# Waits


async def test_an_event_with_both_ids_is_offered_once_it_is_stored() -> None:
    world = World()
    given = [event(), routed(data=b'{"n": 1}', content_type="application/json")]
    plain, taken = await world.ingest(given)
    assert plain.wait is None
    assert taken.wait is not None
    assert taken.wait.reply == OfferReply(
        verdict=Verdict.MATCHED, reason=Reason.EXPECTED, event="paid"
    )
    (offer,) = world.offers
    assert taken.wait.offer is offer
    assert (offer.source, offer.label) == (Source.KAFKA, "order.created")
    assert offer.address == given[1].address
    assert offer.event_id == f"events/order.created/{given[1].event_id}"
    assert (offer.payload, offer.content_type) == (b'{"n": 1}', "application/json")
    assert world.counted("muster_arrivals_total") == 1


async def test_one_that_is_known_is_offered_again_as_the_first() -> None:
    """Whoever stored it may have come no further."""
    world = World()
    first, again = (routed(deduplication_id="d", data=data) for data in (b"1", b"2"))
    await world.ingest([first])
    (taken,) = await world.ingest([again])
    assert (taken.duplicate, taken.jobs, taken.event) == (True, 0, first)
    assert [offer.event_id for offer in world.offers] == [world.offers[0].event_id] * 2
    assert world.offers[1].payload == b"1"
    assert world.counted('muster_events_posted_total{outcome="duplicate"') == 1
    assert world.counted('muster_events_posted_total{outcome="accepted"') == 1
    assert world.counted('muster_dispatch_jobs_created_total{kind="EVENT"') == 2


async def test_what_was_not_stored_is_not_offered() -> None:
    world = World()
    world.away = True
    with pytest.raises(UnavailableError):
        await world.ingest([routed()])
    assert world.offers == []


@pytest.mark.parametrize(
    "refused",
    [
        RefusedReply(kind=RefusalKind.FULL, detail="x", verdict=Verdict.LATE),
        RefusedReply(kind=RefusalKind.BROKEN, detail="x"),
        RefusedReply(kind=RefusalKind.OVERLOADED, detail="x"),
        RefusedReply(kind=RefusalKind.FAILED, detail="x"),
    ],
)
async def test_a_stored_event_is_told_what_its_wait_refused(
    refused: RefusedReply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "RETRY_PAUSES", (0.0, 0.0))
    world = World()
    world.replies = [refused]
    (taken,) = await world.ingest([routed()])
    assert taken.wait is not None
    assert taken.wait.reply is refused
    assert world.stored == [taken.event]
    tries = 3 if refused.kind is RefusalKind.OVERLOADED else 1
    assert len(world.offers) == tries
    assert world.counted('muster_arrivals_total{path="events"') == 1


async def test_only_the_refused_of_a_batch_are_offered_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake, "RETRY_PAUSES", (0.0,))
    fine = OfferReply(verdict=Verdict.MATCHED, reason=Reason.EXPECTED, event="paid")
    busy = RefusedReply(kind=RefusalKind.OVERLOADED, detail="slow down")
    answers: list[list[Reply]] = [[fine, busy, fine], [fine]]
    sizes: list[int] = []

    async def send_many(messages: list[WaitMessage]) -> list[Reply]:
        sizes.append(len(messages))
        return answers.pop(0)

    world = World()
    world.service = CloudEventIntake(world, world, send_many, lambda: "turn", world.metrics, 30.0)
    taken = await world.ingest([routed() for _ in range(3)])
    assert sizes == [3, 1]
    assert [one.wait and one.wait.reply for one in taken] == [fine] * 3


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OverloadedError("too much"), RefusalKind.OVERLOADED),
        (UnavailableError("away"), RefusalKind.FAILED),
    ],
)
async def test_a_wait_that_does_not_answer_fails_no_stored_event(
    error: Exception, kind: RefusalKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "RETRY_PAUSES", (0.0,))
    world = World()

    async def away(_messages: list[WaitMessage]) -> list[Reply]:
        raise error

    world.service = CloudEventIntake(world, world, away, lambda: "turn", world.metrics, 30.0)
    taken = await world.ingest([routed(), routed()])
    refused = RefusedReply(kind=kind, detail=str(error))
    assert [one.wait and one.wait.reply for one in taken] == [refused, refused]


@pytest.mark.parametrize(
    ("more", "payload", "content_type"),
    [
        ({}, b"null", "application/json"),
        ({"data": b"\xff", "content_type": "image/png"}, b"\xff", "image/png"),
        (
            {"data": b'{"correlation_id":"order","a":1}', "content_type": "application/json"},
            b'{"a":1}',
            "application/json",
        ),
    ],
)
def test_a_wait_gets_data_without_ids(
    more: dict[str, Any], payload: bytes, content_type: str
) -> None:
    offer = offer_to_wait(routed(**more), "turn")
    assert (offer.payload, offer.content_type) == (payload, content_type)


def test_an_event_without_ids_is_for_nobody() -> None:
    with pytest.raises(ValueError, match="both ids"):
        offer_to_wait(event(), "turn")
