"""Killed processes and a vanished database: nothing acknowledged is lost, nothing happens twice."""

import itertools
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx

from host.postgres import embedded
from tests.support.product import BOTH, Product, new_id, until


def kill(product: Product, name: str) -> int:
    """kill -9 an actor's process; its old pid."""
    pid = product.running_pid(name)
    os.kill(pid, signal.SIGKILL)
    return pid


def is_taken(product: Product, wait: dict[str, Any], event_id: str) -> bool:
    """Send an event as a careful sender does: under one id, again while it is told to wait."""
    headers = {
        "X-Execution-Id": wait["executionId"],
        "X-Correlation-Id": wait["correlationId"],
        "X-Event-Id": event_id,
    }
    path = "/api/internal/events/process.completed"
    reply = product.http.post(path, json={"ok": True}, headers=headers)
    assert reply.status_code in (200, 503), reply.text
    return reply.status_code == 200


def back(product: Product, name: str, old: int) -> Any:
    def check() -> bool:
        actor = product.actor(name)
        return bool(actor["alive"]) and actor["pid"] != old

    return until(f"{name} is back", check)


def test_a_shard_killed_while_waiting_goes_on_from_its_rows(mortal: Product) -> None:
    waits = [mortal.register() for _ in range(20)]
    for wait in waits:
        mortal.callback(wait, {"before": True})
    old = [kill(mortal, "shard-0"), kill(mortal, "shard-1")]
    for wait in waits:
        taken = _patient(partial(mortal.event, wait, X_Event_Id=new_id()))
        assert taken["waitStatus"] == "completed"
    for name, pid in zip(("shard-0", "shard-1"), old, strict=True):
        back(mortal, name, pid)
    for wait in waits:
        shown = _patient(partial(mortal.show, wait))
        assert shown["output"]["api_response"] == {"before": True}
        assert shown["version"] == 3


def test_shards_killed_under_load_lose_nothing_acknowledged(mortal: Product) -> None:
    """Clients retry with the same event id, as real ones do; the account must come out even."""
    acknowledged: dict[str, tuple[dict[str, Any], str]] = {}
    numbers, stop, lock = itertools.count(), threading.Event(), threading.Lock()

    def client() -> None:
        while not stop.is_set():
            wait = _patient(lambda: mortal.register(executionId=new_id(), nodeId="n"))
            event_id = f"e{next(numbers)}"
            verdict = _patient(lambda: mortal.callback(wait, {"id": event_id}, X_Event_Id=event_id))  # noqa: B023
            with lock:
                acknowledged[event_id] = (wait, verdict["verdict"])

    with ThreadPoolExecutor(8) as pool:
        clients = [pool.submit(client) for _ in range(8)]
        for name in ("shard-0", "shard-1", "shard-0"):
            seen = len(acknowledged)
            until("more acknowledged", lambda: len(acknowledged) > seen + 20)  # noqa: B023
            back(mortal, name, kill(mortal, name))
        stop.set()
        for future in clients:
            future.result()
    assert len(acknowledged) > 60
    for event_id, (wait, verdict) in acknowledged.items():
        assert verdict in {"matched", "duplicate"}
        shown = _patient(partial(mortal.show, wait))
        assert shown["events"]["api_response"]["data"] == {"id": event_id}


def test_a_timer_killed_before_the_deadline_still_fires_it(mortal: Product) -> None:
    wait = _patient(
        partial(mortal.register, BOTH | {"timeout": 2}, executionId=new_id(), nodeId="n")
    )
    old = kill(mortal, "timer")
    until("its end", lambda: _patient(partial(mortal.show, wait, wait=20))["status"] == "timeout")
    back(mortal, "timer", old)


def test_the_supervisor_killed_is_replaced_and_reports(mortal: Product) -> None:
    old = mortal.running_pid("supervisor")
    os.kill(old, signal.SIGKILL)

    def replaced() -> bool:
        try:
            return bool(mortal.actor("supervisor").get("pid", old) != old)
        except (AssertionError, httpx.HTTPError, KeyError, StopIteration):
            return False

    until("a new supervisor", replaced)
    until("its report of the shards", lambda: mortal.actor("shard-0")["alive"])


def test_maintenance_killed_is_replaced_and_healthy(mortal: Product) -> None:
    def is_up() -> bool:
        actors = mortal.http.get("/api/status").json()["actors"]
        return any(one["name"] == "maintenance" and one["alive"] for one in actors)

    until("maintenance is up", is_up)
    back(mortal, "maintenance", kill(mortal, "maintenance"))
    health = until("it is healthy", lambda: _component(mortal, "maintenance"))
    assert health == {"status": "UP", "up": 1, "expected": 1}


def _component(product: Product, name: str) -> dict[str, Any] | None:
    found: dict[str, Any] = product.http.get("/actuator/health").json()["components"][name]
    return found if found["status"] == "UP" else None


def test_a_stream_survives_the_shard_without_gap_or_duplicate(mortal: Product) -> None:
    wait = _patient(partial(mortal.register, executionId=new_id(), nodeId="n"))
    path = f"/api/wait-states/{wait['executionId']}/{wait['correlationId']}/stream"
    ids: list[str] = []
    with mortal.http.stream("GET", path) as stream:
        for line in stream.iter_lines():
            if not line.startswith("id:"):
                continue
            ids.append(line.removeprefix("id:").strip())
            if len(ids) == 1:
                _patient(partial(mortal.callback, wait, X_Event_Id=new_id()))
            if len(ids) == 2:
                old = [kill(mortal, "shard-0"), kill(mortal, "shard-1")]
                taken = partial(is_taken, mortal, wait, new_id())
                until("the event is taken", taken)
    assert ids == ["0", "1", "2", "3"]
    for name, pid in zip(("shard-0", "shard-1"), old, strict=True):
        back(mortal, name, pid)


def test_postgres_away_is_503_and_everything_goes_on_when_it_is_back(mortal: Product) -> None:
    waits = [_patient(partial(mortal.register, executionId=new_id(), nodeId="n")) for _ in range(5)]
    embedded.stop(mortal.data_dir, mode="immediate")
    try:
        reply = mortal.http.post(
            "/api/internal/callbacks/s",
            json={},
            headers={
                "X-Execution-Id": waits[0]["executionId"],
                "X-Correlation-Id": waits[0]["correlationId"],
            },
        )
        assert reply.status_code == 503, reply.text
        assert int(reply.headers["Retry-After"]) > 0
        assert reply.headers["Content-Type"].startswith("application/problem+json")
        assert mortal.http.get("/actuator/health/liveness").status_code == 200
        assert mortal.http.get("/actuator/health/readiness").status_code == 503
    finally:
        embedded.start(mortal.data_dir)
    until("readiness", lambda: mortal.http.get("/actuator/health/readiness").status_code == 200)
    for wait in waits[1:]:
        taken = _patient(partial(mortal.callback, wait, X_Event_Id=new_id()))
        assert taken["verdict"] == "matched"
    taken = _patient(partial(mortal.event, waits[0], X_Event_Id=new_id()))
    assert taken["verdict"] == "matched"


def _patient(call: Any) -> Any:
    """A client that retries what is worth retrying: 429, 503 and a broken connection."""

    def attempt() -> Any:
        try:
            return call()
        except httpx.TransportError:
            return None
        except AssertionError as refused:
            if '"status":503' in str(refused) or '"status":429' in str(refused):
                return None
            raise

    return until("an answer", attempt, within=60)
