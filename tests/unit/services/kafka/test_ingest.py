"""Every record ends somewhere: in a correlation, in the inbox, or as a dead letter."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import asyncpg
import pytest

from core.kafka.message import KafkaMessage
from core.shared.errors import OverloadedError
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
from core.waits.spec import IdFields
from core.waits.state import ParkedEvent, Wait
from services.kafka.ingest import MAX_FAILURES, Ingest, IngestDeps
from services.shared import retry
from services.waits.intake import CorrelationResolver, IdFieldRegistry

BUSY = RefusedReply(kind=RefusalKind.OVERLOADED, detail="later")
BROKEN = RefusedReply(kind=RefusalKind.BROKEN, detail="Postgres refuses this event")


class AwayError(ConnectionError):
    """Postgres is away."""


@dataclass
class World:
    """What ingest talks to, and what it was told."""

    parked: list[ParkedEvent] = field(default_factory=list)
    dead_letters: list[tuple[KafkaMessage, str]] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    answers: list[Reply | Exception] = field(default_factory=list)
    troubles: list[Exception] = field(default_factory=list)
    profiles: list[IdFields] = field(default_factory=list)
    takes_nothing: list[Exception] = field(default_factory=list)
    poisoned: set[int] = field(default_factory=set)
    readings: int = 0
    sendings: int = 0

    def ingest(self) -> Ingest:
        deps = IngestDeps(
            resolver=CorrelationResolver(IdFieldRegistry(self.read, self.create), self.load),
            send_many=self.send_many,
            store=self,
            now=lambda: 5.0,
            chance=lambda: 0.0,
            new_turn_id=lambda: "me",
        )
        return Ingest(deps, max_bytes=1_000)

    async def read(self, tenant: int) -> list[IdFields]:
        self.readings += 1
        return list(self.profiles)

    async def create(self, tenant: int, fields: IdFields) -> None:
        raise NotImplementedError

    async def load(self, keys: Sequence[bytes]) -> dict[bytes, Wait]:
        return {}

    async def send_many(self, messages: list[WaitMessage]) -> list[Reply]:
        self.sendings += 1
        if any(_offset(message) in self.poisoned for message in messages):
            raise RuntimeError("poison")
        replies: list[Reply] = []
        for message in messages:
            answer = self.answers.pop(0) if self.answers else _matched()
            if isinstance(answer, Exception):
                raise answer
            replies.append(answer)
            assert isinstance(message, Offer)
            if isinstance(answer, OfferReply):
                self.offers.append(message)
        return replies

    async def park(self, events: Sequence[ParkedEvent]) -> None:
        if self.troubles:
            raise self.troubles.pop(0)
        self.parked += events

    async def add_dead_letters(
        self, tenant: int, failed: Sequence[tuple[KafkaMessage, str]]
    ) -> None:
        if self.troubles:
            raise self.troubles.pop(0)
        self.dead_letters += failed

    async def probe(self) -> None:
        if self.takes_nothing:
            raise self.takes_nothing.pop(0)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: float) -> None:
        return None

    monkeypatch.setattr(retry.asyncio, "sleep", at_once)


def _offset(message: WaitMessage) -> int:
    assert isinstance(message, Offer)
    return int(message.event_id.rpartition("/")[2])


def _matched() -> OfferReply:
    return OfferReply(verdict=Verdict.MATCHED, reason=Reason.EXPECTED)


def record(
    offset: int, value: bytes = b'{"correlation_id":"c","execution_id":"e"}'
) -> KafkaMessage:
    return KafkaMessage(topic="orders", partition=0, offset=offset, value=value)


async def test_an_event_with_ids_is_offered_under_its_place_in_the_topic() -> None:
    world = World()
    done = await world.ingest().handle(7, [record(1), record(2)])
    assert [offer.event_id for offer in world.offers] == ["kafka/orders/0/1", "kafka/orders/0/2"]
    assert world.offers[0].address.tenant == 7
    assert (done.messages, done.verdicts) == (2, {"matched": 2})


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
    broken = KafkaMessage(
        topic="orders",
        partition=0,
        offset=2,
        value=b"{",
        headers=(("content-type", b"application/json"),),
    )
    done = await world.ingest().handle(7, [record(1), broken, record(3, b"x" * 1_001)])
    assert [(one.offset, error.split()[0]) for one, error in world.dead_letters] == [
        (2, "declared"),
        (3, "1001"),
    ]
    assert (done.verdicts, len(done.dead_letters)) == ({"matched": 1}, 2)


async def test_a_busy_shard_is_asked_again_and_only_for_what_it_refused() -> None:
    world = World(answers=[_matched(), BUSY, OverloadedError("full"), _matched()])
    done = await world.ingest().handle(7, [record(1), record(2)])
    assert [offer.event_id[-1] for offer in world.offers] == ["1", "2"]
    assert done.verdicts == {"matched": 2}


async def test_an_event_that_is_refused_for_good_is_buried() -> None:
    world = World(answers=[BROKEN])
    await world.ingest().handle(7, [record(1), record(2)])
    assert [(one.offset, error) for one, error in world.dead_letters] == [
        (1, "broken: Postgres refuses this event")
    ]


async def test_postgres_away_means_again_not_never() -> None:
    world = World(troubles=[AwayError(), AwayError()])
    done = await world.ingest().handle(7, [record(1, b"{}")])
    assert (len(world.parked), done.unplaced, world.dead_letters) == (1, 1, [])


async def test_poison_takes_nothing_else_along() -> None:
    world = World(poisoned={2})
    world.troubles = [AwayError()]
    done = await world.ingest().handle(7, [record(1), record(2), record(3)])
    assert [one.offset for one, _ in world.dead_letters] == [2]
    assert "poison" in world.dead_letters[0][1]
    assert (done.messages, done.verdicts) == (3, {"matched": 2})


async def test_poison_is_found_by_halves() -> None:
    world = World(poisoned={900})
    done = await world.ingest().handle(7, [record(at) for at in range(1_024)])
    assert [one.offset for one, _ in world.dead_letters] == [900]
    assert done.verdicts == {"matched": 1_023}
    # 1 024 and its halves down to one, twice each but for the first; the last once more.
    assert world.sendings == 1 + 2 * 10 + 1


async def test_nothing_is_buried_while_the_server_takes_no_rows_at_all() -> None:
    """A single record, and a schema that refuses every row: it is not the record's fault."""
    world = World(answers=[asyncpg.NotNullViolationError("tenant_id")] * 3)
    world.takes_nothing = [asyncpg.NotNullViolationError("tenant_id")] * 3
    done = await world.ingest().handle(7, [record(1)])
    assert world.dead_letters == []
    assert done.verdicts == {"matched": 1}


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT in a read-only transaction"),
        asyncpg.UndefinedTableError("relation does not exist"),
        asyncpg.InsufficientPrivilegeError("permission denied"),
        asyncpg.QueryCanceledError("canceling statement due to statement timeout"),
    ],
)
async def test_trouble_of_the_server_holds_back_and_buries_nothing(error: Exception) -> None:
    world = World(troubles=[error] * 6)
    done = await world.ingest().handle(7, [record(1, b"{}"), record(2, b"{}")])
    assert world.dead_letters == []
    assert len(world.parked) == 2
    assert done.unplaced == 2


async def test_a_wait_whose_log_is_full_counts_as_its_verdict() -> None:
    full = RefusedReply(kind=RefusalKind.FULL, detail="no room", verdict=Verdict.LATE)
    world = World(answers=[full, _matched()])
    done = await world.ingest().handle(7, [record(1), record(2)])
    assert done.verdicts == {"late": 1, "matched": 1}
    assert (world.dead_letters, world.sendings) == ([], 1)


async def test_an_event_that_keeps_failing_while_others_are_taken_is_buried_in_the_end() -> None:
    failed = RefusedReply(kind=RefusalKind.FAILED, detail="what is stored here cannot be read now")
    world = World(answers=[failed, _matched(), *[failed] * (MAX_FAILURES - 1)])
    done = await world.ingest().handle(7, [record(1), record(2)])
    assert [(one.offset, error) for one, error in world.dead_letters] == [
        (1, "failed: what is stored here cannot be read now")
    ]
    assert done.verdicts == {"matched": 1}
    assert world.sendings == MAX_FAILURES


async def test_a_shard_that_is_behind_is_waited_for_as_long_as_it_takes() -> None:
    world = World(answers=[BUSY] * (10 * MAX_FAILURES))
    done = await world.ingest().handle(7, [record(1)])
    assert (world.dead_letters, done.verdicts) == ([], {"matched": 1})


async def test_what_cannot_even_be_buried_stops_nothing() -> None:
    world = World(poisoned={1})
    world.troubles = [AwayError(), asyncpg.CharacterNotInRepertoireError("0x00")]
    done = await world.ingest().handle(7, [record(1), record(2)])
    assert (world.dead_letters, [one.offset for one, _ in done.dead_letters]) == ([], [1])
    assert done.verdicts == {"matched": 1}
