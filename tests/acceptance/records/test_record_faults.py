"""Shards killed under a load of record writes: every acknowledged version is stored, once."""

import itertools
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from storage.postgres.pool import Pool
from tests.support.product import Product, new_id, until
from tests.support.tenants import in_database

FIELDS = [{"name": "name", "type": "STRING"}, {"name": "pieces", "type": "INTEGER"}]
CLIENTS = 6


class Account:
    """Writes records, and notes which versions were acknowledged."""

    def __init__(self, product: Product) -> None:
        self._http = product.http
        self.name = f"faults-{new_id()[:8].lower()}"
        made = self._http.post("/control/collections", json={"name": self.name, "fields": FIELDS})
        assert made.status_code == 201, made.text
        self._path = f"/api/collections/{self.name}/records"
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self.acknowledged: list[tuple[str, int]] = []
        self.hot = [self.write("POST", self._path) for _ in range(2)]

    def write(self, method: str, path: str) -> str:
        """Write until a write is acknowledged; return the id of its record."""
        while True:
            body = {"name": "x", "pieces": next(self._numbers)}
            try:
                reply = self._http.request(method, path, json=body)
            except httpx.TransportError:
                continue  # nobody knows whether it was stored
            if reply.status_code == 503:
                continue
            assert reply.status_code in (200, 201), reply.text
            document: dict[str, Any] = reply.json()
            with self._lock:
                self.acknowledged.append((document["id"], document["version"]))
            return str(document["id"])

    def work(self, stop: threading.Event) -> None:
        for turn in itertools.cycle(range(4)):
            if stop.is_set():
                return
            if turn == 0:
                self.write("POST", self._path)
            else:
                self.write("PATCH", f"{self._path}/{self.hot[turn % 2]}")


def kill_and_wait(product: Product, name: str) -> None:
    """Kill -9 an actor's process, and wait until another has its place."""
    old = product.running_pid(name)
    os.kill(old, signal.SIGKILL)

    def is_back() -> bool:
        actor = product.actor(name)
        return bool(actor["alive"]) and actor["pid"] != old

    until(f"{name} is back", is_back)


def test_shards_killed_under_load_store_every_acknowledged_version_once(mortal: Product) -> None:
    account, stop = Account(mortal), threading.Event()
    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(account.work, stop) for _ in range(CLIENTS)]
        try:
            for name in ("shard-0", "shard-1", "shard-0"):
                seen = len(account.acknowledged)
                until("more acknowledged", lambda: len(account.acknowledged) > seen + 50)  # noqa: B023
                kill_and_wait(mortal, name)
        finally:
            stop.set()
        for client in clients:
            client.result()

    async def stored(pool: Pool) -> list[tuple[str, int, str, int]]:
        rows = await pool.fetch(
            """select c.record_id, c.version, c.turn_id, r.version as last
                 from collections k
                 join record_changes c on c.collection_no = k.collection_no
                 join records r on r.tenant_id = c.tenant_id
                  and r.collection_no = c.collection_no and r.record_id = c.record_id
                where k.name = $1
                order by c.record_id, c.version""",
            account.name,
        )
        return [tuple(row) for row in rows]

    changes = in_database(mortal, stored)
    assert len(account.acknowledged) > 150
    by_record: dict[str, list[int]] = {}
    for record_id, version, _, _ in changes:
        by_record.setdefault(record_id, []).append(version)
    last = {record_id: version for record_id, _, _, version in changes}
    assert by_record == {name: list(range(1, version + 1)) for name, version in last.items()}
    turns = [(record_id, turn_id) for record_id, _, turn_id, _ in changes]
    assert len(set(turns)) == len(turns), "a message changed a record twice"
    kept = {(record_id, version) for record_id, version, _, _ in changes}
    assert set(account.acknowledged) <= kept
