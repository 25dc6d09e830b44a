"""What events over HTTP lead to: a job for each who wants them, an end for the wait they name."""

from collections import Counter
from typing import Any

import pytest

from tests.support.events import BATCH, EVENTS, created, post
from tests.support.product import Product, new_id

SUBSCRIPTIONS = "/api/subscriptions"

# Who wants it


def subscribe(product: Product, pattern: str, **more: Any) -> str:
    """Somebody who wants these events, long after this test is over."""
    body = {
        "code": f"s{new_id()}",
        "name": "test",
        "eventTypes": [{"eventTypeCode": pattern}],
        "target": "http://127.0.0.1:9/hook",
        "delaySeconds": 3_600,
        **more,
    }
    reply = product.http.post(SUBSCRIPTIONS, json=body)
    assert reply.status_code == 201, reply.text
    code: str = reply.json()["code"]
    return code


def test_a_job_is_made_for_each_who_wants_an_event(product: Product) -> None:
    subdomain = f"s{new_id()[:12]}"
    type_ = f"shop:{subdomain}:order:created"
    all_ = subscribe(product, f"shop:{subdomain}:*:*")
    large = subscribe(product, type_, filter="data.amount > 100")
    subscribe(product, f"shop:{subdomain}:line:*")
    document = created(post(product, type=type_, data={"amount": 500}, messageGroup="g"))
    assert document["dispatchJobCount"] == 2
    jobs = product.http.get(f"/api/dispatch-jobs/event/{document['event']['id']}").json()["items"]
    assert {job["messageGroup"] for job in jobs} == {f"{all_}:g", f"{large}:g"}
    once = {"type": type_, "source": "s", "deduplicationId": new_id(), "data": {"amount": 5}}
    batch = created(product.http.post(BATCH, json=[once, once, {**once, "type": "other"}]))
    assert (batch["dispatchJobCount"], batch["duplicateCount"]) == (1, 2)


# Waits


def awaits(topic: str) -> dict[str, Any]:
    return {"kafkaEvent": {"topic": topic, "filter": {"paid": True}}, "timeout": 60}


@pytest.mark.parametrize("topic", ["order.paid", "shop:orders:order:paid"])
def test_an_event_completes_the_wait_it_names(placed: Product, topic: str) -> None:
    wait = placed.register(awaits(topic))
    ids = {name: wait[name] for name in ("executionId", "correlationId")}
    other = created(post(placed, type="other", **ids, data={"paid": True}))["wait"]
    assert (other["verdict"], other["reason"]) == ("rejected", "label_not_expected")
    unpaid = created(post(placed, type=topic, **ids, data={"paid": False}))["wait"]
    assert (unpaid["verdict"], unpaid["reason"]) == ("rejected", "filtered_out")
    document = created(post(placed, type=topic, **ids, data={"paid": True, "sum": 5}))
    assert (document["wait"]["verdict"], document["wait"]["waitStatus"]) == ("matched", "completed")
    assert document["wait"]["eventId"].endswith(document["event"]["id"])
    assert placed.show(wait)["events"]["kafka_event"]["data"] == {"paid": True, "sum": 5}


def test_an_event_may_come_before_its_wait(placed: Product) -> None:
    ids = {"executionId": new_id(), "correlationId": new_id()}
    early = created(post(placed, type="order.paid", **ids, data={"paid": True}))["wait"]
    assert (early["verdict"], early["reason"]) == ("buffered", "no_wait_yet")
    wait = placed.register(awaits("order.paid"), **ids)
    assert placed.show(wait, wait=10)["status"] == "completed"


def test_sent_again_an_event_reaches_its_wait_if_it_had_not(product: Product) -> None:
    """As after a crash between the two: here its wait is registered in between."""
    once = {"deduplicationId": new_id(), "type": "order.paid", "data": {"paid": True}}
    ids = {"executionId": new_id(), "correlationId": new_id()}
    created(post(product, **once, **ids))
    wait = product.register(awaits("order.paid"), **ids)
    again = post(product, **once, **ids)
    assert again.status_code == 200
    assert again.json()["wait"]["verdict"] in {"matched", "duplicate"}
    assert product.show(wait)["status"] == "completed"


def test_a_batch_reaches_many_waits(product: Product) -> None:
    waits = [product.register(awaits("order.paid")) for _ in range(5)]
    batch: list[dict[str, Any]] = [{"type": "t", "source": "s"}]
    for wait in waits:
        ids = {name: wait[name] for name in ("executionId", "correlationId")}
        batch.append({"type": "order.paid", "source": "s", "data": {"paid": True}, **ids})
    told = created(product.http.post(BATCH, json=batch))["waits"]
    assert [one["index"] for one in told] == [1, 2, 3, 4, 5]
    assert {one["verdict"] for one in told} == {"matched"}
    assert all(product.show(wait)["status"] == "completed" for wait in waits)


def test_a_wait_whose_log_is_full_fails_no_event(product: Product) -> None:
    """What is stored is answered as stored; a callback, which is not, is told so for good."""
    wait = product.register(awaits("order.paid"))
    ids = {name: wait[name] for name in ("executionId", "correlationId")}
    paid = {"type": "order.paid", "source": "s", "data": {"paid": True}, **ids}
    told = created(product.http.post(BATCH, json=[paid] * 300))
    verdicts = Counter(one["verdict"] for one in told["waits"])
    assert (told["count"], verdicts["matched"]) == (300, 1)
    assert verdicts["refused"] >= 300 - 256
    one = created(product.http.post(EVENTS, json=paid))["wait"]
    assert (one["verdict"], one["reason"], one["retryable"]) == ("refused", "log_full", False)
    reply = product.http.post(
        "/api/internal/events/order.paid",
        json={"paid": True},
        headers={"X-Execution-Id": ids["executionId"], "X-Correlation-Id": ids["correlationId"]},
    )
    assert (reply.status_code, reply.json()["code"]) == (409, "log_full")
    assert reply.json()["verdict"] in {"late", "duplicate"}


def test_one_id_alone_is_for_tracing(product: Product) -> None:
    assert "wait" not in created(post(product, correlationId=new_id()))
