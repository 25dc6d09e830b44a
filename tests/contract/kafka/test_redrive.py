"""Dead letters tried again, on a real Postgres: by ingest's own code, with shards that answer."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from core.kafka.message import KafkaMessage
from core.shared.errors import UnavailableError
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
from services.kafka.ingest import IngestDeps
from services.kafka.ingest_store import RedriveStore
from services.kafka.redrive import Redrive, RedriveRound, RedriveSelection
from services.shared.database import Database
from services.shared.listings import Listings
from services.waits.intake import CorrelationResolver, IdFieldRegistry
from storage.access import keys
from storage.kafka import dead_letters
from storage.kafka.dead_letters import DeadLetter, DeadLetterFilter
from storage.postgres import bounded_scan
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.waits import waits

IDS = b'{"execution_id":"e","correlation_id":"c"}'
BUSY = RefusedReply(kind=RefusalKind.OVERLOADED, detail="later")
BROKEN = RefusedReply(kind=RefusalKind.BROKEN, detail="cannot be")


@dataclass
class World:
    """Postgres, and shards that answer as they are told."""

    pool: Pool
    tenant: int
    answer: Reply | None = None
    offers: list[Offer] = field(default_factory=list)

    def redrive(self, patience: float = 10.0, max_bytes: int = 1_000) -> Redrive:
        database = Database(self.pool, 10.0)
        profiles = IdFieldRegistry(
            database.bind(keys.list_profiles), database.bind(keys.create_profile)
        )
        deps = IngestDeps(
            resolver=CorrelationResolver(profiles, database.bind(waits.load_waits)),
            send_many=self._take,
            store=RedriveStore(self.pool, 60.0),
            now=lambda: 1_800_000_000.0,
            chance=lambda: 0.0,
            new_turn_id=lambda: "me",
        )
        listings = Listings(database, 4, 10.0)
        return Redrive(deps, database, listings, max_bytes, patience)

    async def _take(self, messages: list[WaitMessage]) -> list[Reply]:
        self.offers += [message for message in messages if isinstance(message, Offer)]
        matched = OfferReply(verdict=Verdict.MATCHED, reason=Reason.EXPECTED)
        return [self.answer or matched for _ in messages]

    async def add_dead_letters(self, *values: bytes | None, error: str = "boom") -> list[int]:
        after = await self._ids()
        start = len(after)
        records = [
            KafkaMessage(topic="orders", partition=0, offset=start + index, value=value)
            for index, value in enumerate(values)
        ]
        await dead_letters.add(self.pool, self.tenant, [(one, error) for one in records])
        return [one for one in await self._ids() if one not in after]

    async def _ids(self) -> list[int]:
        rows = await self.pool.fetch("select letter_id from dead_letters order by letter_id")
        return [row[0] for row in rows]

    async def letter(self, letter_id: int) -> DeadLetter:
        (one,) = await dead_letters.read(self.pool, self.tenant, [letter_id])
        return one

    async def all_rounds(
        self, limit: int, chosen: DeadLetterFilter | None = None
    ) -> list[RedriveRound]:
        redrive, after, rounds = self.redrive(), 0, []
        while True:
            choice = RedriveSelection(filter=chosen or DeadLetterFilter(), after=after, limit=limit)
            done = await redrive.run(self.tenant, choice)
            rounds.append(done)
            after = done.selected.reached
            if not done.selected.is_more:
                return rounds


@pytest.fixture
async def world(database: str) -> AsyncIterator[World]:
    pool = await open_pool(PoolOptions(dsn=database, name="test"))
    yield World(pool, await keys.create_tenant(pool, "acme"))
    await pool.close()


async def test_what_is_handled_is_settled_under_its_own_event_id(world: World) -> None:
    (letter_id,) = await world.add_dead_letters(IDS)
    done = await world.redrive().run(world.tenant, RedriveSelection(ids=(letter_id,)))
    assert (done.settled, done.failures) == ((letter_id,), ())
    assert [offer.event_id for offer in world.offers] == ["kafka/orders/0/0"]
    assert (await world.letter(letter_id)).settled


async def test_what_is_settled_is_not_offered_again(world: World) -> None:
    (letter_id,) = await world.add_dead_letters(IDS)
    redrive = world.redrive()
    for _ in range(2):
        done = await redrive.run(world.tenant, RedriveSelection(ids=(letter_id,)))
    assert (done.settled, done.settled_before, len(world.offers)) == ((), (letter_id,), 1)


async def test_what_fails_again_keeps_its_record_and_counts(world: World) -> None:
    world.answer = BROKEN
    (letter_id,) = await world.add_dead_letters(IDS)
    for attempts in (2, 3):
        done = await world.redrive().run(world.tenant, RedriveSelection(ids=(letter_id,)))
        assert [error for _, error in done.failures] == ["broken: cannot be"]
        letter = await world.letter(letter_id)
        assert (letter.attempts, letter.error) == (attempts, "broken: cannot be")
        assert letter.message is not None
        assert letter.message.value == IDS


async def test_a_letter_that_is_still_too_large_fails_without_being_offered(world: World) -> None:
    (letter_id,) = await world.add_dead_letters(b"x" * 1_001)
    done = await world.redrive().run(world.tenant, RedriveSelection(ids=(letter_id,)))
    assert "MUSTER_MAX_BODY" in done.failures[0][1]
    done = await world.redrive(max_bytes=2_000).run(
        world.tenant, RedriveSelection(ids=(letter_id,))
    )
    assert (done.settled, done.done.unplaced) == ((letter_id,), 1)  # bytes without ids


async def test_an_event_without_ids_goes_to_the_inbox_once(world: World) -> None:
    for _ in range(2):
        (letter_id,) = await world.add_dead_letters(b"{}")
        done = await world.redrive().run(world.tenant, RedriveSelection(ids=(letter_id,)))
        assert done.done.unplaced == 1
        await dead_letters.delete(world.pool, world.tenant, letter_id)
    assert await world.pool.fetchval("select count(*) from event_inbox") == 1


async def test_a_filter_goes_through_all_of_them_in_order_and_ends(world: World) -> None:
    world.answer = BROKEN
    ids = await world.add_dead_letters(IDS, b"{}", IDS, b"{}", IDS)
    rounds = await world.all_rounds(limit=2)
    assert [one.selected.ids for one in rounds] == [tuple(ids[:2]), tuple(ids[2:4]), (ids[4],)]
    assert [one.selected.remaining for one in rounds] == [3, 1, 0]
    assert [offer.event_id for offer in world.offers] == [f"kafka/orders/0/{n}" for n in (0, 2, 4)]


async def test_a_round_ends_exactly_with_the_last(world: World) -> None:
    await world.add_dead_letters(b"{}", b"{}")
    assert len(await world.all_rounds(limit=2)) == 1
    assert (await world.all_rounds(limit=2))[0].selected.ids == ()


async def test_what_a_filter_seldom_means_is_found_look_by_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_scan, "SCAN_LIMIT", 3)
    first = await world.add_dead_letters(b"{}", error="rare")
    await world.add_dead_letters(*[b"{}"] * 9, error="common")
    last = await world.add_dead_letters(b"{}", error="rare")
    rounds = await world.all_rounds(10, DeadLetterFilter(error="rare"))
    assert [one.settled for one in rounds] == [tuple(first), (), (), tuple(last)]


async def test_letters_that_are_larger_than_a_round_are_tried_one_by_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_scan, "SCAN_LIMIT", 2)
    ids = await world.add_dead_letters(*[b"x" * (5 * 1024 * 1024)] * 3)
    rounds = await world.all_rounds(10)
    assert [one.selected.ids for one in rounds] == [(one,) for one in ids]


async def test_filters_choose_and_other_tenants_are_left_alone(world: World) -> None:
    ids = await world.add_dead_letters(b"{}", b"{}", error="odd 50%_")
    await world.add_dead_letters(b"{}", error="even")
    redrive = world.redrive()
    elsewhere = await redrive.run(world.tenant + 1, RedriveSelection())
    assert elsewhere.selected.ids == ()
    named = await redrive.run(world.tenant + 1, RedriveSelection(ids=tuple(ids)))
    assert (named.selected.ids, named.selected.unknown) == ((), tuple(ids))
    chosen = RedriveSelection(filter=DeadLetterFilter(topic="orders", error="ODD 50%_"))
    assert (await redrive.run(world.tenant, chosen)).settled == tuple(ids)


async def test_shards_that_are_behind_end_the_wait_and_lose_nothing(world: World) -> None:
    world.answer = BUSY
    (letter_id,) = await world.add_dead_letters(IDS)
    with pytest.raises(UnavailableError):
        await world.redrive(patience=0.3).run(world.tenant, RedriveSelection(ids=(letter_id,)))
    letter = await world.letter(letter_id)
    assert (letter.settled, letter.attempts) == (False, 1)
    world.answer = None
    done = await world.redrive().run(world.tenant, RedriveSelection(ids=(letter_id,)))
    assert done.settled == (letter_id,)


async def test_what_was_deleted_meanwhile_is_not_buried_anew(world: World) -> None:
    (letter_id,) = await world.add_dead_letters(IDS)
    await world.pool.execute("delete from dead_letters")
    done = await world.redrive().run(world.tenant, RedriveSelection(ids=(letter_id,)))
    assert done.selected.unknown == (letter_id,)
    assert await world.pool.fetchval("select count(*) from dead_letters") == 0
