"""Every record ends somewhere: in a correlation, in the inbox, or as a dead letter."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from actors import ingest as module
from actors.addressing import Addressing
from actors.ingest import Ingest, Means
from actors.profiles import Profiles
from core.arrival import Arrival
from core.errors import OverloadedError
from core.messages import Judged, Message, Offer, Reason, RefusalKind, Refused, Reply, Verdict
from core.record import Record
from core.spec import IdFields
from core.wait import Parked, Wait

BUSY = Refused(kind=RefusalKind.OVERLOADED, detail="later")
BROKEN = Refused(kind=RefusalKind.BROKEN, detail="Postgres refuses this event")


class AwayError(Exception):
    """Postgres is away."""


@dataclass
class World:
    """What ingest talks to, and what it was told."""

    parked: list[Parked] = field(default_factory=list)
    buried: list[tuple[Record, str]] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    hooked: list[Arrival] = field(default_factory=list)
    answers: list[Reply | Exception] = field(default_factory=list)
    troubles: list[Exception] = field(default_factory=list)
    profiles: list[IdFields] = field(default_factory=list)
    readings: int = 0

    def ingest(self) -> Ingest:
        means = Means(
            addressing=Addressing(Profiles(self.read, self.create), self.load),
            send_many=self.send_many,
            store=self,
            now=lambda: 5.0,
            chance=lambda: 0.0,
            mint=lambda: "me",
            transient=(AwayError,),
            hook=self.hook,
        )
        return Ingest(means, max_bytes=1_000)

    async def read(self, tenant: int) -> list[IdFields]:
        self.readings += 1
        return list(self.profiles)

    async def create(self, tenant: int, fields: IdFields) -> None:
        raise NotImplementedError

    async def load(self, keys: Sequence[bytes]) -> dict[bytes, Wait]:
        return {}

    async def send_many(self, messages: list[Message]) -> list[Reply]:
        replies: list[Reply] = []
        for message in messages:
            answer = self.answers.pop(0) if self.answers else _matched()
            if isinstance(answer, Exception):
                raise answer
            replies.append(answer)
            assert isinstance(message, Offer)
            if isinstance(answer, Judged):
                self.offers.append(message)
        return replies

    async def park(self, events: Sequence[Parked]) -> None:
        if self.troubles:
            raise self.troubles.pop(0)
        self.parked += events

    async def bury(self, tenant: int, failed: Sequence[tuple[Record, str]]) -> None:
        if self.troubles:
            raise self.troubles.pop(0)
        self.buried += failed

    async def hook(self, tenant: int, arrivals: Sequence[Arrival]) -> None:
        self.hooked += arrivals


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: float) -> None:
        return None

    monkeypatch.setattr(module.asyncio, "sleep", at_once)


def _matched() -> Judged:
    return Judged(verdict=Verdict.MATCHED, reason=Reason.EXPECTED)


def record(offset: int, value: bytes = b'{"correlation_id":"c","execution_id":"e"}') -> Record:
    return Record(topic="orders", partition=0, offset=offset, value=value)


async def test_an_event_with_ids_is_offered_under_its_place_in_the_topic() -> None:
    world = World()
    done = await world.ingest().handle(7, [record(1), record(2)])
    assert [offer.event_id for offer in world.offers] == ["kafka/orders/0/1", "kafka/orders/0/2"]
    assert world.offers[0].address.tenant == 7
    assert (done.records, done.verdicts) == (2, {"matched": 2})
    assert len(world.hooked) == 2


async def test_delivered_again_it_is_another_turn() -> None:
    world = World()
    ingest = world.ingest()
    for _ in range(2):
        await ingest.handle(7, [record(1)])
    assert len({offer.turn_id for offer in world.offers}) == 2


async def test_an_event_without_ids_goes_to_the_inbox() -> None:
    world = World()
    done = await world.ingest().handle(7, [record(1, b"{}"), record(2, b"[]")])
    assert [event.reason for event in world.parked] == [Reason.MISSING_ID] * 2
    assert (done.unplaced, world.readings) == (2, 2)  # names were read anew once, not per event


async def test_names_that_are_new_are_learned() -> None:
    world = World()
    ingest = world.ingest()
    await ingest.handle(7, [record(1)])
    world.profiles.append(IdFields("ref", "run"))
    done = await ingest.handle(7, [record(2, b'{"ref":"c","run":"e","n":1}')])
    assert done.verdicts == {"matched": 1}
    assert world.offers[-1].payload == b'{"n":1}'


async def test_what_cannot_be_read_is_buried_and_the_rest_goes_on() -> None:
    world = World()
    broken = Record(
        topic="orders",
        partition=0,
        offset=2,
        value=b"{",
        headers=(("content-type", b"application/json"),),
    )
    done = await world.ingest().handle(7, [record(1), broken, record(3, b"x" * 1_001)])
    assert [(one.offset, error.split()[0]) for one, error in world.buried] == [
        (2, "not"),
        (3, "1001"),
    ]
    assert (done.verdicts, len(done.buried)) == ({"matched": 1}, 2)


async def test_a_busy_shard_is_asked_again_and_only_for_what_it_refused() -> None:
    world = World(answers=[_matched(), BUSY, OverloadedError("full"), _matched()])
    done = await world.ingest().handle(7, [record(1), record(2)])
    assert [offer.event_id[-1] for offer in world.offers] == ["1", "2"]
    assert done.verdicts == {"matched": 2}


async def test_an_event_that_is_refused_for_good_is_buried() -> None:
    world = World(answers=[BROKEN])
    await world.ingest().handle(7, [record(1), record(2)])
    assert [(one.offset, error) for one, error in world.buried] == [
        (1, "broken: Postgres refuses this event")
    ]


async def test_postgres_away_means_again_not_never() -> None:
    world = World(troubles=[AwayError(), AwayError()])
    done = await world.ingest().handle(7, [record(1, b"{}")])
    assert (len(world.parked), done.unplaced, world.buried) == (1, 1, [])


async def test_poison_takes_nothing_else_along() -> None:
    world = World(answers=[RuntimeError("poison"), _matched(), RuntimeError("poison"), _matched()])
    world.troubles = [AwayError()]
    done = await world.ingest().handle(7, [record(1), record(2), record(3)])
    assert [one.offset for one, _ in world.buried] == [2]
    assert "poison" in world.buried[0][1]
    assert (done.records, done.verdicts) == (3, {"matched": 2})
