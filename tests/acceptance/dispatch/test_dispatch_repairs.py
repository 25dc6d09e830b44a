"""Jobs that did not arrive are tried again, found, and put right by people."""

import threading
from typing import Any

import pytest

from tests.support.dispatching import JOBS, DispatchApi, make_pool
from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import new_id, until
from tests.support.receiver import Answer, Delivery


@pytest.fixture(scope="module")
def idle(shipper: DispatchApi) -> str:
    """A pool that delivers nothing."""
    code = make_pool(shipper.product)
    shipper.suspend(code)
    return code


# Not delivered


def test_a_receiver_that_asks_for_patience_is_tried_later(shipper: DispatchApi) -> None:
    def defer(_: Delivery) -> Answer:
        return Answer(200, b'{"ack": false, "delaySeconds": 600}')

    target = shipper.receiver.place(defer)
    posted = shipper.post(target, maxRetries=1)
    target.gets(1)
    shown = until("it waits", lambda: _waits(shipper, posted["id"]))
    assert (shown["status"], shown["attemptCount"]) == ("QUEUED", 0)
    (attempt,) = shown["attempts"]
    assert attempt["status"] == "DEFERRED"


def _waits(shipper: DispatchApi, job_id: str) -> dict[str, Any] | None:
    shown = shipper.show(job_id)
    return shown if shown["attempts"] and shown["scheduledFor"] else None


def test_what_fails_for_now_is_tried_again_under_the_same_id(shipper: DispatchApi) -> None:
    answers = iter([500, 200])
    target = shipper.receiver.place(lambda _: Answer(next(answers)))
    posted = shipper.post(target)
    first, second = target.gets(2)
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == posted["id"]
    done = shipper.becomes(posted["id"], "COMPLETED")
    assert [one["status"] for one in done["attempts"]] == ["SERVER_ERROR", "SUCCESS"]
    assert [one["errorType"] for one in done["attempts"]] == ["TRANSIENT", None]
    assert done["lastError"] is None


def failed(shipper: DispatchApi, **fields: Any) -> dict[str, Any]:
    target = shipper.receiver.place(400)
    posted = shipper.post(target, **fields)
    return shipper.becomes(posted["id"], "ERROR")


def test_what_fails_for_good_is_an_error_that_people_may_settle(shipper: DispatchApi) -> None:
    job = failed(shipper)
    assert job["lastError"]
    assert [one["status"] for one in job["attempts"]] == ["CLIENT_ERROR"]
    completed = shipper.do(job["id"], "complete").json()
    assert completed["status"] == "COMPLETED"
    problem = assert_problem(shipper.do(job["id"], "complete"), 409, "not_failed")
    assert problem["detail"].endswith(f"job {job['id']} is COMPLETED")
    assert_problem(shipper.do(job["id"], "cancel"), 409, "ended")

    ignored = shipper.do(failed(shipper)["id"], "ignore").json()
    assert (ignored["status"], ignored["ignored"]) == ("ERROR", True)
    assert_problem(shipper.do(ignored["id"], "ignore"), 409, "ended")
    found = shipper.http.get(JOBS, params={"status": "ERROR", "ignored": True}).json()["items"]
    assert ignored["id"] in [one["id"] for one in found]

    cancelled = shipper.do(failed(shipper)["id"], "cancel").json()
    assert cancelled["status"] == "CANCELLED"


def test_what_was_delivered_is_delivered_again_on_request(shipper: DispatchApi) -> None:
    target = shipper.receiver.place()
    posted = shipper.post(target, idempotencyKey=new_id())
    shipper.becomes(posted["id"], "COMPLETED")
    again = shipper.do(posted["id"], "resend")
    assert again.status_code == 200
    first, second = target.gets(2)
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    done = shipper.becomes(posted["id"], "COMPLETED")
    assert (done["attemptCount"], len(done["attempts"])) == (1, 2)


def test_what_is_being_delivered_is_left_alone(shipper: DispatchApi) -> None:
    free = threading.Event()
    target = shipper.receiver.place(lambda _: Answer(hold=free))
    posted = shipper.post(target)
    try:
        target.gets(1)
        for verb in ("requeue", "resend", "cancel", "complete", "ignore"):
            assert_problem(shipper.do(posted["id"], verb), 409, "in_progress")
        many = shipper.http.post(f"{JOBS}/requeue", json={"ids": [posted["id"], "0" * 13]}).json()
        assert many["requeued"] == 0
        results = {one["id"]: one["result"] for one in many["refused"]}
        assert results == {posted["id"]: "in_progress", "0" * 13: "unknown"}
    finally:
        free.set()
    shipper.becomes(posted["id"], "COMPLETED")
    assert len(target.deliveries) == 1


def test_what_failed_since_a_time_is_recovered_with_progress(shipper: DispatchApi) -> None:
    target = shipper.receiver.place(400)
    code, other = new_id(), failed(shipper)
    # The database's clock, as the job's own times have it.
    posted = [shipper.post(target, code=code)["id"] for _ in range(7)]
    jobs = [shipper.becomes(job_id, "ERROR") for job_id in posted]
    since = min(job["lastAttemptAt"] for job in jobs)
    target.becomes(200)
    wish: dict[str, Any] = {"since": since, "pool": shipper.pool, "limit": 3}
    rounds = []
    while True:
        reply = shipper.http.post(f"{JOBS}/recover", json=wish)
        assert reply.status_code == 200, reply.text
        rounds.append(reply.json())
        if rounds[-1]["nextCursor"] is None:
            break
        wish["cursor"] = rounds[-1]["nextCursor"]
    assert [one["requeued"] for one in rounds] == [3, 3, 1]
    assert [one["remaining"] for one in rounds] == [4, 1, 0]
    for job_id in posted:
        shipper.becomes(job_id, "COMPLETED")
    assert shipper.show(other["id"])["status"] == "ERROR"


def test_many_are_put_right_by_filter(shipper: DispatchApi, idle: str) -> None:
    target, code = shipper.receiver.place(), new_id()
    posted = [shipper.post(target, code=code, dispatchPoolId=idle)["id"] for _ in range(5)]
    done = shipper.http.post(f"{JOBS}/cancel", json={"code": code, "limit": 2}).json()
    assert (done["changed"], done["remaining"], done["refused"]) == (2, 3, [])
    wish = {"code": code, "cursor": done["nextCursor"]}
    done = shipper.http.post(f"{JOBS}/cancel", json=wish).json()
    assert (done["changed"], done["nextCursor"]) == (3, None)
    statuses = {shipper.show(job_id)["status"] for job_id in posted}
    assert statuses == {"CANCELLED"}
    # What was cancelled has not failed: only who names the state means it.
    wish = {"code": code}
    assert shipper.http.post(f"{JOBS}/requeue", json=wish).json()["requeued"] == 0
    wish = {"code": code, "status": ["CANCELLED"]}
    assert shipper.http.post(f"{JOBS}/requeue", json=wish).json()["requeued"] == 5
    assert {shipper.show(job_id)["status"] for job_id in posted} == {"PENDING"}
    assert target.deliveries == []


# Found


def test_listings_are_filtered_and_paged(shipper: DispatchApi, idle: str) -> None:
    target, code = shipper.receiver.place(), new_id()
    posted = [
        shipper.post(target, code=code, dispatchPoolId=idle, source=f"s-{n % 2}")["id"]
        for n in range(5)
    ]
    newest = posted[::-1]

    def listed(**params: Any) -> dict[str, Any]:
        reply = shipper.http.get(JOBS, params={"code": code} | params)
        assert reply.status_code == 200, reply.text
        document: dict[str, Any] = reply.json()
        return document | {"ids": [item["id"] for item in document["items"]]}

    assert listed()["ids"] == newest
    first = listed(limit=2)
    assert first["ids"] == newest[:2]
    assert listed(cursor=first["nextCursor"])["ids"] == newest[2:]
    assert listed(source="s-1")["ids"] == [newest[1], newest[3]]
    assert listed(pool=idle)["ids"] == listed(dispatchPoolId=idle)["ids"] == newest
    assert listed(pool="default")["ids"] == listed(pool="nobody")["ids"] == []
    assert listed(status=["QUEUED", "ERROR"])["ids"] == newest
    assert listed(status="COMPLETED")["ids"] == listed(kind="EVENT")["ids"] == []
    second = listed(page=1, size=2)
    assert second["ids"] == newest[2:4]
    assert (second["totalItems"], second["totalPages"], second["page"]) == (5, 3, 1)
    at = shipper.show(posted[2])["createdAt"]
    assert listed(createdAfter=at)["ids"] == newest[:3]
    assert listed(createdBefore=at)["ids"] == newest[3:]
    options = shipper.http.get(f"{JOBS}/filter-options").json()
    assert {"value": code, "label": code} in options["codes"]
    assert idle in [option["value"] for option in options["pools"]]
    assert shipper.http.get("/api/dispatch/jobs", params={"code": code}).json()["items"]


def test_the_deliveries_of_an_event_are_found_by_it(shipper: DispatchApi) -> None:
    target, kind = shipper.receiver.place(), f"shop:orders:order:e{new_id()[:8]}"
    for number in (1, 2):
        wish = {
            "code": f"s{number}-{new_id()[:8]}",
            "name": "test",
            "eventTypes": [{"eventTypeCode": kind}],
            "target": target.url,
            "dispatchPoolId": shipper.pool,
        }
        made = shipper.http.post("/api/subscriptions", json=wish)
        assert made.status_code == 201, made.text
    body = {"type": kind, "source": "shop", "data": {"n": 1}, "correlationId": "c-1"}
    sent = shipper.http.post("/api/events", json=body).json()
    event_id = sent["event"]["id"]
    target.gets(2)
    found = shipper.http.get(f"{JOBS}/event/{event_id}").json()["items"]
    assert len(found) == 2
    assert {one["kind"] for one in found} == {"EVENT"}
    assert {one["correlationId"] for one in found} == {"c-1"}
    keys = {f"{event_id}:{one['subscriptionId']}" for one in found}
    assert {one["idempotencyKey"] for one in found} == keys
    shown = shipper.becomes(found[0]["id"], "COMPLETED")
    assert shown["payload"] == {"n": 1}
    by_filter = shipper.http.get(JOBS, params={"eventId": event_id, "kind": "EVENT"}).json()
    assert [one["id"] for one in by_filter["items"]] == [one["id"] for one in found]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"status": "SOMETIMES"}, "status[0]"),
        ({"cursor": "nonsense"}, "cursor"),
        ({"createdAfter": "yesterday"}, "createdAfter"),
        ({"nonsense": "1"}, "nonsense"),
        ({"limit": 501}, "limit"),
    ],
)
def test_a_look_that_cannot_be_is_refused(
    shipper: DispatchApi, params: dict[str, Any], field: str
) -> None:
    reply = shipper.http.get(JOBS, params=params)
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == {field}


# The receiver that comes with it


@pytest.mark.parametrize(
    ("place", "status", "attempts"),
    [
        ("", "COMPLETED", ["SUCCESS"]),
        ("/fail-permanent", "ERROR", ["CLIENT_ERROR"]),
        ("/fail-transient", "ERROR", ["SERVER_ERROR"]),
        ("/slow?seconds=2", "ERROR", ["TIMEOUT"]),
        ("/slow?seconds=0.1", "COMPLETED", ["SUCCESS"]),
    ],
)
def test_deliveries_can_be_tried_here(
    shipper: DispatchApi, place: str, status: str, attempts: list[str]
) -> None:
    url = f"{shipper.product.url}/api/sample/webhook{place}"
    posted = shipper.post(url, maxRetries=1, timeoutSeconds=1)
    done = shipper.becomes(posted["id"], status)
    assert [one["status"] for one in done["attempts"]] == attempts


def test_the_sample_receiver_can_ask_for_patience(shipper: DispatchApi) -> None:
    url = f"{shipper.product.url}/api/sample/webhook/defer?delaySeconds=500"
    posted = shipper.post(url)
    shown = until("it waits", lambda: _waits(shipper, posted["id"]))
    assert shown["attempts"][0]["status"] == "DEFERRED"
