"""A pool's small parts: its counts, its targets, how it sends, and how it is told of jobs."""

import asyncio
from collections.abc import Sequence

import pytest

from actors.dispatch.counters import DispatchCounters
from actors.dispatch.delivery_sender import GONE_TTL, PROFILE_TTL, DeliverySender, ProfileKey
from actors.dispatch.job_notifier import BATCH_SIZE, MAX_WAITING, JobNotifier
from actors.dispatch.skipped import given_back, unsent
from actors.dispatch.targets import FORGET_AFTER, Targets
from actors.dispatch.targets import MAX_TARGETS as MOST_SITES
from core.dispatch.attempt import AttemptStatus, DeliveryAttempt, decide
from core.dispatch.claim import ClaimedJob, DeliveryProfile
from core.dispatch.job import JobKey, JobRef, JobStatus, decode_job_refs
from core.shared.errors import UnavailableError
from tests.support.deliveries import delivery, task
from tests.unit.actors.dispatch.dispatcher_fixtures import BAD, NO, OK, later

SITE = (1, "http://a.example")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 10_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


# Tally.


def counted(tally: DispatchCounters, sent: DeliveryAttempt, attempts: int = 0) -> None:
    step = decide(sent, attempt_count=attempts, max_retries=2, jitter=0.5)
    tally.count(step, sent)


def test_what_became_of_jobs_is_counted(clock: Clock) -> None:
    tally = DispatchCounters(clock)
    for sent in (OK, OK, BAD, NO, later(5)):
        counted(tally, sent)
    counted(tally, BAD, attempts=1)
    tally.count(unsent(task(), JobStatus.EXPIRED, ""), None)
    tally.count(given_back(task()), None)
    told = tally.snapshot()
    names = ("completed", "failed", "retried", "deferred", "expired", "sends")
    assert [told[name] for name in names] == [2, 2, 1, 1, 1, 6]


def test_the_last_minutes_are_counted_apart(clock: Clock) -> None:
    tally = DispatchCounters(clock)
    counted(tally, DeliveryAttempt(status=AttemptStatus.SUCCESS, seconds=0.5))
    clock.now += 10 * 60
    counted(tally, NO)
    assert tally.snapshot()["windows"] == {
        "5": {"completed": 0, "failed": 1},
        "30": {"completed": 1, "failed": 1},
    }
    for _ in range(60):
        clock.now += 60
        counted(tally, OK)
    assert tally.snapshot()["windows"]["30"] == {"completed": 30, "failed": 0}
    clock.now += 31 * 60
    told = tally.snapshot()
    assert told["windows"]["30"] == {"completed": 0, "failed": 0}
    assert told["completed"] == 61
    assert told["seconds"] == 0.5


# Sites.


def fail(sites: Targets, times: int = 10, sent: DeliveryAttempt = BAD) -> list[bool]:
    return [sites.end(SITE, sites.begin(SITE), sent) for _ in range(times)]


def test_a_target_takes_so_many_at_once(clock: Clock) -> None:
    sites = Targets(2, clock)
    assert sites.allows(SITE)
    tickets = [sites.begin(SITE), sites.begin(SITE)]
    assert not sites.allows(SITE)
    assert sites.allows((2, SITE[1]))
    assert not sites.end(SITE, tickets[0], OK)
    assert sites.allows(SITE)


def test_a_tenant_gets_no_more_than_its_share(clock: Clock) -> None:
    sites = Targets(10, clock)
    sites.shared_places = 4
    tickets = [sites.begin((1, f"http://{name}.example")) for name in "ab"]
    others = [(1, f"http://{name}.example") for name in "cd"]
    assert [sites.allows(target_key) for target_key in others] == [False, False]
    assert sites.allows((2, SITE[1]))
    assert sites.next_in_turn() is None
    sites.end((1, "http://a.example"), tickets[0], OK)
    assert [sites.next_in_turn(), sites.next_in_turn(), sites.next_in_turn()] == [*others, None]
    assert sites.allows(others[0])


def test_there_is_room_for_the_next_tenant_however_many_are_there(clock: Clock) -> None:
    sites = Targets(1_000, clock)
    sites.shared_places = 200
    held = []
    for tenant in range(1, 6):
        count = 0
        while sites.allows((tenant, f"http://{count}.example")):
            sites.begin((tenant, f"http://{count}.example"))
            count += 1
        held.append(count)
    assert held == [100, 50, 25, 13, 6]


def test_a_target_that_fails_is_left_alone_for_a_while(clock: Clock) -> None:
    sites = Targets(10, clock)
    assert fail(sites).count(True) == 1
    assert sites.is_breaker_tripped(SITE)
    assert not sites.allows(SITE)
    assert sites.next_opening == clock.now + 5
    assert sites.reopened() == []
    (told,) = sites.snapshot(1)
    assert (told["target"], told["open_for"], told["under_way"]) == (SITE[1], 5.0, 0)
    assert sites.snapshot(2) == []
    clock.now += 5
    assert sites.reopened() == [SITE]
    assert sites.next_opening is None
    ticket = sites.begin(SITE)
    assert not sites.allows(SITE)  # one at a time, and no time has to pass but that one
    assert sites.next_opening is None
    assert sites.states() == {"closed": 0, "open": 0, "half_open": 1}
    sites.end(SITE, ticket, None)
    fail(sites, 3, OK)
    assert not sites.is_breaker_tripped(SITE)


@pytest.mark.parametrize("sent", [NO, later(5), None])
def test_what_says_nothing_about_a_target_counts_neither_way(
    clock: Clock, sent: DeliveryAttempt | None
) -> None:
    sites = Targets(10, clock)
    fail(sites, 9)
    assert fail(sites, 50, sent) == [False] * 50
    assert not sites.is_breaker_tripped(SITE)
    fail(sites, 1)
    assert sites.is_breaker_tripped(SITE)
    clock.now += 5
    for _ in range(10):
        ticket = sites.begin(SITE)
        sites.end(SITE, ticket, sent)
    assert sites.is_breaker_tripped(SITE) is (sent is not NO)  # one that refuses is back


def test_targets_can_be_tried_at_once(clock: Clock) -> None:
    sites = Targets(10, clock)
    fail(sites)
    assert not sites.allows(SITE)
    assert sites.reset(2, None) == []
    assert sites.reset(1, "http://b.example") == []
    assert sites.reset(1, f"{SITE[1]}/hook?x=1") == [SITE]
    assert sites.allows(SITE)
    assert sites.next_opening is None


def test_targets_that_nobody_uses_are_forgotten_whatever_their_state(clock: Clock) -> None:
    sites = Targets(10, clock)
    fail(sites)
    busy = (1, "http://b.example")
    sites.begin(busy)
    clock.now += FORGET_AFTER + 1
    sites.forget_idle()
    assert sites.snapshot(1)[0]["target"] == busy[1]
    assert sum(sites.states().values()) == 1


def test_of_too_many_targets_those_that_are_well_are_forgotten(clock: Clock) -> None:
    sites = Targets(10, clock)
    fail(sites)
    for at in range(MOST_SITES):
        target_key = (1, f"http://{at}.example")
        sites.end(target_key, sites.begin(target_key), OK)
    sites.forget_idle()
    assert [one["target"] for one in sites.snapshot(1)] == [SITE[1]]


# Courier.


class Office:
    """Where profiles are read, and deliveries made."""

    def __init__(self, clock: Clock) -> None:
        self.read: list[ProfileKey] = []
        self.questions = 0
        self.sent: list[tuple[str, DeliveryProfile]] = []
        self.profile: DeliveryProfile | None = DeliveryProfile(secrets=(b"one",))
        self.sender = DeliverySender(self._read, self._send, clock, clock)

    async def _read(self, keys: Sequence[ProfileKey]) -> dict[ProfileKey, DeliveryProfile | None]:
        self.questions += 1
        self.read += keys
        return dict.fromkeys(keys, self.profile)

    async def _send(self, job: ClaimedJob, profile: DeliveryProfile) -> DeliveryAttempt:
        self.sent.append((job.job_id, profile))
        return OK


async def test_a_profile_is_read_once_for_each_version(clock: Clock) -> None:
    office = Office(clock)
    for version in (1, 1, 2):
        await office.sender.send(delivery(subscription_version=version))
    await office.sender.send(task())
    assert [key[1:] for key in office.read] == [
        ("sub_0SUB000000001", 1),
        ("sub_0SUB000000001", 2),
        ("", 0),
    ]
    assert len(office.sent) == 4


async def test_what_is_prepared_need_not_be_read_when_it_is_sent(clock: Clock) -> None:
    office = Office(clock)
    await office.sender.prepare([task(), task(), delivery(subscription_version=3)])
    read = list(office.read)
    assert len(read) == 2
    assert office.questions == 1
    await office.sender.send(delivery(subscription_version=3))
    await office.sender.send(task())
    assert office.read == read


async def test_a_profile_is_read_again_when_it_may_have_changed(clock: Clock) -> None:
    office = Office(clock)
    await office.sender.send(task())
    office.profile = DeliveryProfile(secrets=(b"two", b"one"))
    await office.sender.send(task())
    assert office.sent[-1][1].secrets == (b"one",)
    office.sender.forget(2)  # another tenant's
    await office.sender.send(task())
    assert office.sent[-1][1].secrets == (b"one",)
    office.sender.forget(1)
    await office.sender.send(task())
    assert office.sent[-1][1].secrets == (b"two", b"one")
    office.profile = DeliveryProfile(secrets=(b"two",))  # no version tells that the other has ended
    clock.now += PROFILE_TTL
    await office.sender.send(task())
    assert office.sent[-1][1].secrets == (b"two",)


async def test_what_cannot_be_made_is_told(clock: Clock) -> None:
    office = Office(clock)
    sent = await office.sender.send(delivery(event=None))
    assert sent.permanent
    assert sent.error == "its event is past retention and gone"
    office.profile = None
    sent = await office.sender.send(delivery(subscription_version=None))
    assert sent.permanent
    assert sent.error == "its subscription is gone"
    assert sent.began_at == clock.now
    assert not sent.counts_as_failure
    office.profile = DeliveryProfile()
    clock.now += GONE_TTL
    assert await office.sender.send(delivery(subscription_version=None)) is OK


async def test_what_is_for_one_target_is_sent_to_no_other(clock: Clock) -> None:
    office = Office(clock)
    office.profile = DeliveryProfile(
        target="https://new.example/", auth={"type": "bearer", "token": "t"}
    )
    sent = await office.sender.send(delivery("https://old.example/"))
    assert (sent.status, sent.delay) == (AttemptStatus.DEFERRED, 0.0)
    assert office.sent == []
    assert await office.sender.send(delivery("https://new.example/")) is OK


async def test_a_profile_that_cannot_be_read_is_the_callers_affair(clock: Clock) -> None:
    async def read(_: Sequence[ProfileKey]) -> dict[ProfileKey, DeliveryProfile | None]:
        raise ConnectionRefusedError

    with pytest.raises(ConnectionRefusedError):
        await DeliverySender(read, Office(clock)._send, clock, clock).send(task())


# Handing over.


class Pools:
    """Actors that take what they are offered, as far as they are there."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, list[JobRef]]] = []
        self.away: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.pending: list[JobKey] = []
        self.refuses_marks = False
        self.hand_over = JobNotifier(self.call, self.mark_pending)

    async def call(self, name: str, method: str, jobs: bytes) -> None:
        assert method == "offer"
        await self.gate.wait()
        if self.away is not None:
            raise self.away
        self.taken.append((name, decode_job_refs(jobs)))

    async def mark_pending(self, keys: Sequence[JobKey]) -> None:
        if self.refuses_marks:
            raise ConnectionRefusedError
        self.pending += keys

    async def idle(self) -> None:
        while commits := list(self.hand_over._commits._commits.values()):
            await asyncio.gather(*(commit._running for commit in commits if commit._running))


def pointers(count: int, start: int = 0) -> list[JobRef]:
    return [
        JobRef(tenant=1, job_id=f"j{at}", position=at, target=SITE[1])
        for at in range(start, start + count)
    ]


async def test_jobs_are_handed_to_their_pools_while_more_gather() -> None:
    pools = Pools()
    pools.gate.clear()
    await pools.hand_over.notify({1: pointers(2), 2: pointers(1, 50)})
    await asyncio.sleep(0)
    for at in range(10, 20):
        await pools.hand_over.notify({1: pointers(1, at)})
    pools.gate.set()
    await pools.idle()
    assert sorted((name, len(jobs)) for name, jobs in pools.taken) == [
        ("pool-dispatch-1", 2),
        ("pool-dispatch-1", 10),
        ("pool-dispatch-2", 1),
    ]
    assert pools.pending == []
    assert len(pools.hand_over._commits) == 0


@pytest.mark.parametrize("error", [UnavailableError("no actor"), RuntimeError("odd")])
async def test_what_a_pool_does_not_take_is_marked_and_the_rest_goes_on(error: Exception) -> None:
    pools = Pools()
    pools.away = error
    await pools.hand_over.notify({1: pointers(2)})
    await pools.idle()
    assert pools.pending == [JobKey(1, "j0"), JobKey(1, "j1")]
    pools.refuses_marks = True
    await pools.hand_over.notify({1: pointers(1)})
    await pools.idle()
    pools.away = None
    await pools.hand_over.notify({1: pointers(1)})
    await pools.idle()
    assert len(pools.taken) == 1


async def test_no_more_is_remembered_than_is_of_use() -> None:
    pools = Pools()
    pools.gate.clear()
    for _ in range(3):
        await pools.hand_over.notify({1: pointers(MAX_WAITING)})
    assert len(pools.hand_over._commits._commits[1]) == MAX_WAITING
    pools.gate.set()
    await pools.idle()
    assert {len(jobs) for _, jobs in pools.taken} == {BATCH_SIZE}


async def test_whoever_stops_does_not_wait_for_a_pool_that_is_away() -> None:
    pools = Pools()
    pools.gate.clear()
    await pools.hand_over.notify({1: pointers(1)})
    closing = asyncio.create_task(pools.hand_over.close())
    done, _ = await asyncio.wait({closing}, timeout=5.0)
    assert done
    await asyncio.sleep(0)
    assert len(pools.hand_over._commits) == 0
