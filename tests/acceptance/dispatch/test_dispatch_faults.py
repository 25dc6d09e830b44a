"""A pool that is killed while it delivers: all arrives, in order, and what came twice is known."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors.runtime.names import dispatch_pool_name
from storage.dispatch import pools
from storage.postgres.pool import Pool
from tests.support.dispatching import JOBS, DispatchApi, make_pool, tenant_of
from tests.support.product import Product, until
from tests.support.receiver import Answer, Delivery, Target, receiving
from tests.support.subscriptions import new_type, subscription_body
from tests.support.tenants import another_tenant, in_database

POOLS, EVENTS, SUBSCRIPTIONS = "/api/dispatch-pools", "/api/events/batch", "/api/subscriptions"
CONCURRENCY = 10


@pytest.fixture
def shipper(product: Product) -> Iterator[DispatchApi]:
    """A tenant with a pool of its own, which nobody misses when it is killed."""
    with another_tenant(product) as tenant, receiving() as receiver:
        made = DispatchApi(tenant, receiver, make_pool(tenant, concurrency=CONCURRENCY))
        until("the pool's actor", lambda: actor_of(made)["alive"])
        yield made
        tenant.http.delete(f"{POOLS}/{made.pool}")


def actor_of(shipper: DispatchApi) -> dict[str, Any]:
    async def number(db: Pool) -> int:
        row = await pools.find(db, await tenant_of(db, shipper.product), shipper.pool)
        assert row is not None
        return row.pool_no

    name = dispatch_pool_name(in_database(shipper.product, number))
    actors = shipper.http.get("/api/status").json()["actors"]
    gone = {"alive": False, "pid": 0}
    return next((actor for actor in actors if actor["name"] == name), gone)


def kill(shipper: DispatchApi) -> int:
    pid: int = actor_of(shipper)["pid"]
    os.kill(pid, signal.SIGKILL)
    return pid


def back(shipper: DispatchApi, old: int) -> None:
    def is_back() -> bool:
        actor = actor_of(shipper)
        return bool(actor["alive"]) and actor["pid"] != old

    until("the pool is back", is_back)


def post_many(
    shipper: DispatchApi, target: Target, numbers: range, **fields: Any
) -> dict[str, int]:
    """Post jobs that bring these numbers; which job brings which."""
    jobs = [
        # What was under way when its pool was killed is soon free again.
        shipper.body(target, payload={"n": number}, timeoutSeconds=1, **fields)
        for number in numbers
    ]
    reply = shipper.http.post(f"{JOBS}/batch", json=jobs)
    assert reply.status_code == 201, reply.text
    return {job["id"]: number for job, number in zip(reply.json()["jobs"], numbers, strict=True)}


def number_of(delivery: Delivery) -> int:
    return int(delivery.document["n"])


def assert_in_order(target: Target, group: Callable[[int], object]) -> None:
    """What was sent again was sent before what came after it."""
    last: dict[object, int] = {}
    for delivery in target.deliveries:
        number = number_of(delivery)
        assert last.get(group(number), -1) <= number
        last[group(number)] = number


def has(shipper: DispatchApi, *statuses: str) -> bool:
    """Whether some job is in one of these states."""
    params = {"status": statuses, "size": 1}
    return bool(shipper.http.get(JOBS, params=params).json()["items"])


def all_done(shipper: DispatchApi) -> bool:
    return not has(shipper, "QUEUED", "PENDING", "IN_PROGRESS")


def completed(shipper: DispatchApi) -> int:
    """How many jobs are delivered, and known to be."""
    reply = shipper.http.get(JOBS, params={"status": "COMPLETED", "page": 0, "size": 1})
    return int(reply.json()["totalItems"])


def slow(_: Delivery) -> Answer:
    time.sleep(0.02)
    return Answer()


def test_a_pool_killed_in_the_middle_of_five_hundred_deliveries(shipper: DispatchApi) -> None:
    target = shipper.receiver.place(slow)
    jobs: dict[str, int] = {}
    for group in range(6):
        first = group * 50
        fields = {"messageGroup": f"g{group}", "mode": "BLOCK_ON_ERROR"}
        jobs |= post_many(shipper, target, range(first, first + 50), **fields)
    jobs |= post_many(shipper, target, range(1_000, 1_100))
    target.gets(60)
    old = kill(shipper)
    started = len(target.deliveries)
    assert started < 400
    unstored = started - completed(shipper)
    # Stored while nobody is there to be told.
    jobs |= post_many(shipper, target, range(2_000, 2_100), messageGroup="h", mode="NEXT_ON_ERROR")
    back(shipper, old)
    until("all are done", lambda: all_done(shipper), 60)

    came = target.deliveries
    assert len(jobs) == 500
    assert {number_of(one) for one in came} == set(jobs.values())
    # Twice: those whose answer was not stored, and those on their way to the receiver.
    assert len(came) <= 500 + unstored + CONCURRENCY
    for one in came:
        assert jobs[one.headers["webhook-id"]] == number_of(one)
        assert one.headers["idempotency-key"] == one.headers["webhook-id"]
    assert_in_order(target, lambda n: n if 1_000 <= n < 2_000 else n // 50 if n < 1_000 else "h")
    assert not has(shipper, "ERROR", "EXPIRED", "CANCELLED")


def test_events_are_delivered_whatever_becomes_of_their_pool(shipper: DispatchApi) -> None:
    seen: set[str] = set()

    def answer(delivery: Delivery) -> Answer:
        key = delivery.headers["idempotency-key"]
        if key not in seen and number_of(delivery) % 10 == 0:
            seen.add(key)
            return Answer(body=b'{"ack": false, "delaySeconds": 1}')
        return slow(delivery)

    target = shipper.receiver.place(answer)
    type_ = new_type()
    made = shipper.http.post(
        SUBSCRIPTIONS,
        json=subscription_body(
            eventTypes=[{"eventTypeCode": type_}],
            target=target.url,
            delaySeconds=0,
            timeoutSeconds=1,
            mode="BLOCK_ON_ERROR",
            dispatchPoolId=shipper.pool,
        ),
    )
    assert made.status_code == 201, made.text

    def publish(first: int) -> None:
        events = [
            {
                "type": type_,
                "source": "shop",
                "subject": f"order:{number}",
                "messageGroup": f"g{number % 5}",
                "data": {"n": number},
            }
            for number in range(first, first + 50)
        ]
        reply = shipper.http.post(EVENTS, json=events)
        assert reply.status_code == 201, reply.text
        assert reply.json()["dispatchJobCount"] == 50

    path = f"{POOLS}/{shipper.pool}"
    publish(0)
    target.gets(10)
    old = kill(shipper)
    publish(50)
    back(shipper, old)
    assert shipper.http.post(f"{path}/suspend").json()["status"] == "SUSPENDED"
    publish(100)

    def rests() -> bool:
        before = len(target.deliveries)
        time.sleep(1.0)
        return len(target.deliveries) == before

    until("nothing comes for a second", rests)
    before = len(target.deliveries)
    assert before < 150
    job = shipper.post(target, payload={"n": 10_000})
    assert len(target.deliveries) == before
    assert shipper.show(job["id"])["status"] == "QUEUED"
    assert shipper.http.post(f"{path}/activate").json()["status"] == "ACTIVE"
    until("all are done", lambda: all_done(shipper), 60)

    events = [one for one in target.deliveries if number_of(one) < 10_000]
    assert {number_of(one) for one in events} == set(range(150))
    assert_in_order(target, lambda n: n % 5 if n < 10_000 else n)
    keys = {(number_of(one), one.headers["idempotency-key"]) for one in events}
    assert len(keys) == 150
    subscription = made.json()["id"]
    for one in events:
        assert one.headers["idempotency-key"] == f"{one.headers['ce-id']}:{subscription}"
    shipper.http.delete(f"{SUBSCRIPTIONS}/{subscription}")
