"""A correlation waits for events in any order, over any path, and completes exactly once."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.product import BOTH, Product, new_id, until


@pytest.mark.parametrize("api_first", [True, False])
def test_both_orders_complete(placed: Product, api_first: bool) -> None:
    wait = placed.register(nodeId="pay")
    steps: list[Any] = [
        lambda: placed.callback(wait, {"paid": 12}),
        lambda: placed.event(wait, {"event_type": "done"}),
    ]
    first, second = steps if api_first else reversed(steps)
    assert first()["waitStatus"] == "waiting"
    assert second()["waitStatus"] == "completed"
    shown = placed.show(wait)
    assert shown["status"] == "completed"
    assert shown["output"]["api_response"] == {"paid": 12}
    assert shown["output"]["kafka_event"] == {"event_type": "done"}
    assert shown["missingEvents"] == []
    assert shown["resumedAt"]
    assert shown["resumedBy"]


def test_early_duplicate_and_late_each_get_their_verdict(placed: Product) -> None:
    ids = {"executionId": new_id(), "correlationId": new_id()}
    early = placed.callback(ids, {"n": 1})
    assert (early["verdict"], early["reason"]) == ("buffered", "no_wait_yet")
    wait = placed.register(**ids)
    assert placed.show(wait)["receivedEvents"] == ["api_response"]
    assert placed.callback(wait, {"n": 2})["verdict"] == "duplicate"
    assert placed.event(wait)["verdict"] == "matched"
    assert placed.callback(wait, {"n": 3})["verdict"] == "late"
    assert placed.show(wait)["output"]["api_response"] == {"n": 1}


def test_a_timeout_fires_after_its_deadline_and_soon(placed: Product) -> None:
    """How soon is what `python -m bench timers` measures; here the machine may be busy."""
    wait = placed.register(BOTH | {"timeout": 1.5})
    shown = placed.show(wait, wait=20)
    assert shown["status"] == "timeout"
    assert 0 <= _seconds(shown["endedAt"]) - _seconds(shown["expiresAt"]) < 5


@pytest.mark.parametrize(
    ("policy", "status", "partial"),
    [
        ("fail", "timeout", False),
        ("continue", "timeout", False),
        ("continue_with_partial", "completed", True),
    ],
)
def test_timeout_policies(product: Product, policy: str, status: str, partial: bool) -> None:
    wait = product.register(BOTH | {"timeout": 0.6, "onTimeout": policy})
    product.callback(wait)
    shown = product.show(wait, wait=20)
    assert (shown["status"], bool(shown.get("partial"))) == (status, partial)
    if partial:
        assert shown["missing"] == ["kafka_event"]
        assert "kafka_event" in shown["warning"]


def test_twenty_clients_at_once_one_matches(product: Product) -> None:
    wait = product.register()
    barrier = threading.Barrier(20)

    def send(_: int) -> str:
        barrier.wait()
        verdict: str = product.callback(wait)["verdict"]
        return verdict

    with ThreadPoolExecutor(20) as pool:
        verdicts = list(pool.map(send, range(20)))
    assert sorted(verdicts) == ["duplicate"] * 19 + ["matched"]


def test_api_and_kafka_at_the_same_moment(product: Product) -> None:
    waits = [product.register() for _ in range(30)]
    with ThreadPoolExecutor(16) as pool:
        futures = [
            pool.submit(send, wait) for wait in waits for send in (product.callback, product.event)
        ]
        verdicts = [future.result()["verdict"] for future in futures]
    assert set(verdicts) == {"matched"}
    assert {product.show(wait)["status"] for wait in waits} == {"completed"}


def test_no_event_crosses_executions(product: Product) -> None:
    shared = new_id()
    one = product.register(correlationId=shared, executionId=new_id())
    two = product.register(correlationId=shared, executionId=new_id())
    product.callback(one, {"for": "one"})
    product.callback(two, {"for": "two"})
    stranger = product.callback({"executionId": new_id(), "correlationId": shared})
    assert (stranger["verdict"], stranger["reason"]) == ("rejected", "execution_mismatch")
    assert stranger["clause"]["expected"] in {one["executionId"], two["executionId"]}
    assert product.show(one)["events"]["api_response"]["data"] == {"for": "one"}
    assert product.show(two)["events"]["api_response"]["data"] == {"for": "two"}


def test_each_refusal_has_its_own_reason_and_is_explained(product: Product) -> None:
    wait = product.register(
        {
            "kafkaEvent": {
                "topic": "orders",
                "filter": {"event_type": "action.completed", "data.tries[0]": 1},
            },
            "timeout": 60,
        }
    )
    wrong_source = product.callback(wait)
    wrong_topic = product.event(wait, topic="other")
    filtered = product.event(wait, {"event_type": "action.started"}, topic="orders")
    assert [e["reason"] for e in (wrong_source, wrong_topic, filtered)] == [
        "source_not_expected",
        "label_not_expected",
        "filtered_out",
    ]
    assert filtered["clause"] == {
        "rule": "filter.event_type",
        "expected": "action.completed",
        "actual": "action.started",
    }
    path = f"/api/wait-states/{wait['executionId']}/{wait['correlationId']}/explain"
    told = product.http.get(path).json()
    assert told["summary"].startswith("waiting")
    sentences = [miss["sentence"] for miss in told["nearMisses"]]
    assert any("action.completed" in line and "action.started" in line for line in sentences)
    assert len(sentences) == 3
    right = product.event(
        wait, {"event_type": "action.completed", "data": {"tries": [1]}}, topic="orders"
    )
    assert right["waitStatus"] == "completed"


def test_ids_come_from_configured_names(product: Product) -> None:
    name = f"X-Ref-{new_id()[:6]}"
    config = {
        "apiCall": {
            "url": "http://127.0.0.1:9/",
            "correlationIdField": "meta.refs[1].id",
            "executionIdHeader": name,
        },
        "timeout": 60,
    }
    wait = product.register(config)
    body = {"meta": {"refs": [{}, {"id": wait["correlationId"]}]}, "value": 3}
    reply = product.http.post(
        "/api/internal/callbacks/any", json=body, headers={name: wait["executionId"]}
    )
    assert reply.json()["verdict"] == "matched", reply.text


def test_body_ids_are_stripped_from_what_is_stored(product: Product) -> None:
    wait = product.register()
    body = {
        "execution_id": wait["executionId"],
        "correlation_id": wait["correlationId"],
        "inner": {"correlation_id": "x", "kept": 1},
    }
    assert product.http.post("/api/internal/callbacks/s", json=body).json()["verdict"] == "matched"
    assert product.show(wait)["events"]["api_response"]["data"] == {"inner": {"kept": 1}}


def test_the_callback_url_needs_no_key_and_fits_one_correlation(product: Product) -> None:
    wait, other = product.register(), product.register()
    with httpx.Client(trust_env=False) as nobody:
        assert nobody.post(wait["callbackUrl"], json={"a": 1}).json()["verdict"] == "matched"
        stolen = nobody.post(
            other["callbackUrl"],
            json={"a": 1},
            headers={
                "X-Execution-Id": wait["executionId"],
                "X-Correlation-Id": wait["correlationId"],
            },
        )
        assert stolen.status_code == 403
        forged = other["callbackUrl"][:-4] + "AAAA"
        assert nobody.post(forged, json={}).status_code == 401


def test_registration_can_be_repeated_but_not_changed(product: Product) -> None:
    ids = {"executionId": new_id(), "nodeId": "pay"}
    first = product.register(**ids)
    again = product.register(**ids)
    assert again["correlationId"] == first["correlationId"]
    assert not again["created"]
    other = product.http.post("/api/wait-states", json={**ids, "data": BOTH | {"timeout": 61}})
    assert other.status_code == 409
    taken = product.http.post(
        "/api/wait-states", json={**ids, "correlationId": new_id(), "data": BOTH}
    )
    assert taken.status_code == 409
    assert first["correlationId"] in taken.text


def test_quorum_and_named_events(product: Product) -> None:
    config = {
        "events": [{"name": n} for n in ("credit", "fraud", "stock")],
        "aggregationStrategy": "quorum",
        "quorum": 2,
        "timeout": 60,
    }
    wait = product.register(config)
    assert product.callback(wait, service="fraud")["event"] == "fraud"
    assert product.callback(wait, service="nobody")["reason"] == "label_not_expected"
    assert product.callback(wait, service="credit")["waitStatus"] == "completed"


def test_nothing_enabled_completes_at_once(product: Product) -> None:
    wait = product.register({"apiCall": {"enabled": False}, "kafkaEvent": {"enabled": False}})
    assert wait["status"] == "completed"


def test_cancel(product: Product) -> None:
    wait = product.register()
    path = f"/api/wait-states/{wait['executionId']}/{wait['correlationId']}"
    assert product.http.delete(path).json()["status"] == "cancelled"
    assert product.callback(wait)["verdict"] == "late"
    done = product.register(BOTH | {"aggregationStrategy": "any"})
    product.callback(done)
    assert (
        product.http.delete(
            f"/api/wait-states/{done['executionId']}/{done['correlationId']}"
        ).status_code
        == 409
    )


def test_batches(product: Product) -> None:
    items = [{"data": BOTH, "nodeId": f"n{i}"} for i in range(100)]
    items[7] = {"data": {"aggregationStrategy": "sometimes"}, "nodeId": "bad"}
    results = product.http.post("/api/wait-states/batch", json={"items": items}).json()["results"]
    assert [r["status"] for r in results].count(201) == 99
    assert results[7]["status"] == 422
    good = [r["body"] for r in results if r["status"] == 201]
    sent = product.http.post(
        "/api/internal/callbacks/s/batch",
        json={
            "items": [
                {
                    "executionId": w["executionId"],
                    "correlationId": w["correlationId"],
                    "body": {"i": i},
                }
                for i, w in enumerate(good)
            ]
        },
    ).json()["results"]
    assert {r["body"]["verdict"] for r in sent} == {"matched"}


def test_listing_pages_through_everything_once(product: Product) -> None:
    execution = new_id()
    made = {
        product.register(executionId=execution, nodeId=f"n{i}")["correlationId"] for i in range(7)
    }
    seen: list[str] = []
    cursor: str | None = None
    while True:
        params = {"executionId": execution, "limit": 3} | ({"cursor": cursor} if cursor else {})
        page = product.http.get("/api/wait-states", params=params).json()
        seen += [item["correlationId"] for item in page["items"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert len(seen) == 7
    assert set(seen) == made
    none = product.http.get(
        "/api/wait-states", params={"executionId": execution, "status": "completed"}
    )
    assert none.json()["items"] == []


def test_long_poll_returns_when_it_ends(product: Product) -> None:
    wait = product.register()
    product.event(wait)
    timer = threading.Timer(0.4, product.callback, [wait])
    timer.start()
    started = time.monotonic()
    shown = product.show(wait, wait=20)
    timer.join()
    assert shown["status"] == "completed"
    assert time.monotonic() - started < 10


def test_the_inbox_shows_retries_and_forgets(product: Product) -> None:
    ids = {"executionId": new_id(), "correlationId": new_id()}
    product.callback(ids, {"n": 1})
    found = product.http.get("/api/inbox", params={"correlationId": ids["correlationId"]}).json()[
        "items"
    ]
    assert [(item["verdict"], item["reason"]) for item in found] == [("buffered", "no_wait_yet")]
    inbox_id = found[0]["inboxId"]
    assert product.http.get(f"/api/inbox/{inbox_id}").json()["data"] == {"n": 1}
    again = product.http.post(f"/api/inbox/{inbox_id}/retry").json()
    assert again["verdict"] == "buffered"
    assert product.http.delete(f"/api/inbox/{inbox_id}").status_code == 204
    assert product.http.get(f"/api/inbox/{inbox_id}").status_code == 404


def test_a_long_log_comes_in_pages_and_a_stream_shows_all_of_it(product: Product) -> None:
    wait = product.register()
    large = {"blob": "x" * 900_000}
    for _ in range(12):
        product.callback(wait, large)
    product.event(wait)
    path = f"/api/wait-states/{wait['executionId']}/{wait['correlationId']}"
    ids: list[int] = []
    after = -1
    while True:
        page = product.http.get(f"{path}/log", params={"after": after}).json()
        ids += [item["id"] for item in page["items"]]
        if page.get("nextAfter") is None:
            break
        after = page["nextAfter"]
    assert ids == list(range(15))
    with product.http.stream("GET", f"{path}/stream") as stream:
        streamed = [int(line[3:]) for line in stream.iter_lines() if line.startswith("id:")]
    assert streamed == ids


def test_status_and_metrics_tell_what_happened(product: Product) -> None:
    wait = product.register()
    product.callback(wait)
    product.event(wait)
    report = product.http.get("/api/status").json()
    kinds = [actor["kind"] for actor in report["actors"]]
    assert {"shard", "timer", "supervisor"} <= set(kinds)
    text = until(
        "completed waits in /metrics",
        lambda: _metric(product, "muster_waits_ended_total", 'status="completed"'),
    )
    assert text >= 1


def _metric(product: Product, name: str, label: str) -> float:
    lines = product.http.get("/metrics").text.splitlines()
    values = [float(x.rsplit(" ", 1)[1]) for x in lines if x.startswith(name) and label in x]
    return sum(values)


def _seconds(stamp: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(stamp).timestamp()
