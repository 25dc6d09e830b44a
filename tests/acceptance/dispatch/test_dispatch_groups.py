"""Groups keep their order, and people let them go on."""

import threading
from typing import Any

import pytest

from storage.postgres.pool import Pool
from tests.support.dispatching import GROUPS, DispatchApi, make_pool, tenant_of
from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product, new_id, until
from tests.support.receiver import Answer, Delivery, Target, receiving
from tests.support.tenants import another_tenant, in_database


def group_name() -> str:
    return f"order-processor:order/{new_id()}:ä"


def poisoned(shipper: DispatchApi, group: str, behind: int = 3) -> tuple[Target, list[str]]:
    """A group whose first job fails for good, and the ids of all its jobs."""

    def decide(delivery: Delivery) -> Answer:
        return Answer(400 if delivery.document["n"] == 0 else 200)

    target = shipper.receiver.place(decide)
    ids = [shipper.grouped(target, group, payload={"n": n}) for n in range(behind + 1)]
    shipper.becomes(ids[0], "ERROR")
    return target, ids


def numbers(target: Target) -> list[int]:
    return [delivery.document["n"] for delivery in target.deliveries]


def listed(shipper: DispatchApi, **params: Any) -> list[dict[str, Any]]:
    """All groups of a listing, page after page."""
    found: list[dict[str, Any]] = []
    while True:
        reply = shipper.http.get(GROUPS, params=params)
        assert reply.status_code == 200, reply.text
        page = reply.json()
        found += page["items"]
        if page["nextCursor"] is None:
            return found
        params["cursor"] = page["nextCursor"]


def test_a_failed_head_blocks_its_group_and_no_other(shipper: DispatchApi) -> None:
    group = group_name()
    target, ids = poisoned(shipper, group)
    shown = shipper.group(group)
    assert (shown["state"], shown["blocked"], shown["waiting"]) == ("blocked", True, 3)
    assert shown["head"]["id"] == ids[0]
    assert shown["head"]["lastError"]
    assert shown["head"]["ageSeconds"] >= 0
    assert (shown["name"], shown["dispatchPoolCode"]) == (group, shipper.pool)
    # What is blocked behind this, in its order.
    assert [job["id"] for job in shown["jobs"]] == ids
    page = shipper.group(group, limit=2)
    assert [job["id"] for job in page["jobs"]] == ids[:2]
    rest = shipper.group(group, cursor=page["nextCursor"])
    assert [job["id"] for job in rest["jobs"]] == ids[2:]
    blocked = {one["name"] for one in listed(shipper, state="blocked", pool=shipper.pool)}
    assert group in blocked

    well = shipper.receiver.place()
    other = shipper.grouped(well, group_name())
    shipper.becomes(other, "COMPLETED")
    assert numbers(target) == [0]


def test_a_group_goes_on_without_a_head_that_is_skipped(shipper: DispatchApi) -> None:
    group = group_name()
    target, ids = poisoned(shipper, group)
    reply = shipper.do_group(group, "skip", params={"jobId": ids[1]})
    problem = assert_problem(reply, 409, "conflict")
    assert ids[0] in problem["detail"]
    reply = shipper.do_group(group, "skip", params={"jobId": ids[0]})
    assert reply.status_code == 200, reply.text
    for job_id in ids[1:]:
        shipper.becomes(job_id, "COMPLETED")
    assert numbers(target) == [0, 1, 2, 3]
    head = shipper.show(ids[0])
    assert (head["status"], head["ignored"]) == ("ERROR", True)
    assert_problem(shipper.do_group(group, "skip"), 404, "not_found")


def test_a_group_is_resumed_with_what_failed(shipper: DispatchApi) -> None:
    group = group_name()
    target, ids = poisoned(shipper, group)
    target.becomes(200)
    assert shipper.do_group(group, "resume").status_code == 200
    for job_id in ids:
        shipper.becomes(job_id, "COMPLETED")
    assert numbers(target) == [0, 0, 1, 2, 3]


@pytest.mark.parametrize("verb", ["complete", "cancel", "ignore", "requeue"])
def test_whatever_is_done_with_the_head_sets_its_group_free(
    shipper: DispatchApi, verb: str
) -> None:
    group = group_name()
    target, ids = poisoned(shipper, group)
    target.becomes(200)
    assert shipper.do(ids[0], verb).status_code == 200
    for job_id in ids[1:]:
        shipper.becomes(job_id, "COMPLETED", within=10)
    assert numbers(target)[-3:] == [1, 2, 3]


def test_a_parked_group_waits_until_it_is_resumed(shipper: DispatchApi) -> None:
    group, target = group_name(), shipper.receiver.place()
    other = group_name()
    where = {"pool": shipper.pool}
    reply = shipper.do_group(group, "park", json={"reason": "audit"}, params=where)
    assert reply.status_code == 200, reply.text
    parked = reply.json()
    assert (parked["state"], parked["parked"]["reason"]) == ("parked", "audit")
    # The pool has been told once it keeps what comes now.
    until("the pool knows", lambda: _is_kept(shipper, group, target))
    ids = [shipper.grouped(target, group, payload={"n": n}) for n in range(3)]
    free = shipper.grouped(target, other, payload={"n": 99})
    shipper.becomes(free, "COMPLETED")
    assert numbers(target).count(99) == 1
    assert {shipper.show(job_id)["status"] for job_id in ids} == {"QUEUED"}
    assert group in {one["name"] for one in listed(shipper, state="parked")}
    assert shipper.do_group(group, "resume").json()["parked"] is None
    for job_id in ids:
        shipper.becomes(job_id, "COMPLETED")
    came = [number for number in numbers(target) if number in {0, 1, 2}]
    assert came == [0, 1, 2]


def _is_kept(shipper: DispatchApi, group: str, target: Target) -> bool:
    probe = shipper.grouped(target, group, payload={"n": -1})
    marker = shipper.grouped(target, group_name(), payload={"n": -2})
    shipper.becomes(marker, "COMPLETED")
    kept = bool(shipper.show(probe)["status"] == "QUEUED")
    shipper.do(probe, "cancel")
    return kept


def test_a_head_that_waits_is_cancelled_by_a_skip(shipper: DispatchApi) -> None:
    group, target = group_name(), shipper.receiver.place()
    head = shipper.grouped(target, group, payload={"n": 0}, delaySeconds=3_600)
    following = shipper.grouped(target, group, payload={"n": 1})
    shown = shipper.group(group)
    assert (shown["state"], shown["waiting"], shown["head"]["id"]) == ("waiting", 2, head)
    assert shipper.do_group(group, "skip").status_code == 200
    shipper.becomes(following, "COMPLETED")
    assert shipper.show(head)["status"] == "CANCELLED"
    assert numbers(target) == [1]


def test_a_head_that_is_being_delivered_is_not_skipped(shipper: DispatchApi) -> None:
    free = threading.Event()
    group, target = group_name(), shipper.receiver.place(lambda _: Answer(hold=free))
    job_id = shipper.grouped(target, group)
    try:
        target.gets(1)
        assert shipper.group(group)["state"] == "delivering"
        assert_problem(shipper.do_group(group, "skip"), 409, "in_progress")
    finally:
        free.set()
    shipper.becomes(job_id, "COMPLETED")


def test_a_name_in_two_pools_is_two_groups(shipper: DispatchApi) -> None:
    group, target = group_name(), shipper.receiver.place()
    second = make_pool(shipper.product)
    later = {"delaySeconds": 3_600}
    one = shipper.grouped(target, group, **later)
    two = shipper.grouped(target, group, dispatchPoolId=second, **later)
    reply = shipper.do_group(group, "skip")
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == {"pool"}
    assert second in reply.json()["detail"]
    assert shipper.group(group, pool=second)["head"]["id"] == two
    assert shipper.do_group(group, "skip", params={"pool": second}).status_code == 200
    assert shipper.group(group)["head"]["id"] == one


def test_what_fails_and_holds_nobody_is_passed_by(shipper: DispatchApi) -> None:
    group = group_name()

    def decide(delivery: Delivery) -> Answer:
        return Answer(400 if delivery.document["n"] == 0 else 200)

    target = shipper.receiver.place(decide)
    ids = [shipper.grouped(target, group, payload={"n": n}, mode="NEXT_ON_ERROR") for n in range(3)]
    for job_id in ids[1:]:
        shipper.becomes(job_id, "COMPLETED")
    assert numbers(target) == [0, 1, 2]
    shown = shipper.group_becomes(group, "failed")
    assert (shown["blocked"], shown["waiting"]) == (False, 0)


def test_groups_are_listed_in_pages(shipper: DispatchApi) -> None:
    target, mark = shipper.receiver.place(), new_id()
    names = sorted(f"{mark}-{n}" for n in range(5))
    for name in names:
        shipper.grouped(target, name, delaySeconds=3_600)
    found = listed(shipper, state="waiting", limit=2, pool=shipper.pool)
    assert [one["name"] for one in found if one["name"].startswith(mark)] == names
    everything = listed(shipper, limit=3)
    assert {one["name"] for one in found} <= {one["name"] for one in everything}
    assert_problem(shipper.http.get(GROUPS, params={"cursor": "nonsense"}), 422, "invalid")


def test_so_many_groups_are_parked_and_no_more(product: Product) -> None:
    async def fill(db: Pool) -> None:
        await db.execute(
            "insert into dispatch_parked_groups (pool_no, tenant_id, message_group, parked_by)"
            " select 1, $1, 'g-' || n, 'me' from generate_series(1, 1000) n",
            await tenant_of(db, tenant),
        )

    with another_tenant(product) as tenant, receiving() as receiver:
        shipper = DispatchApi(tenant, receiver, "default")
        in_database(tenant, fill)
        refused = shipper.do_group("one-more", "park", json={})
        assert "1000 groups are parked" in assert_problem(refused, 409, "conflict")["detail"]
        assert shipper.do_group("g-1", "resume").status_code == 200
        assert shipper.do_group("one-more", "park", json={}).status_code == 200
