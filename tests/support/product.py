"""The product as its users have it: started by its own command, spoken to over HTTP."""

import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from host.ports import free_port
from tests.support.command_server import PLAIN, command_server
from tests.support.process_logs import of_instance, watched

BOTH: dict[str, Any] = {
    "apiCall": {"url": "http://127.0.0.1:9/process"},
    "kafkaEvent": {"topic": "process.completed"},
    "timeout": 60,
}


# Longer than `muster up` itself waits for a start that gets on.
START_WITHIN = 700


def until(what: str, check: Callable[[], Any], within: float = 30.0) -> Any:
    """Poll until `check` gives something true; say what was missing if it never does."""
    deadline = time.monotonic() + within
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {within:g} s")
        time.sleep(0.05)


@dataclass
class Product:
    """A running Muster and a client of its admin key."""

    url: str
    key: str
    pid: int
    data_dir: Path
    http: httpx.Client = field(repr=False)

    def register(self, config: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        """Register a wait state; its document."""
        reply = self.http.post("/api/wait-states", json={"data": config or BOTH, **fields})
        assert reply.status_code in (200, 201), reply.text
        document: dict[str, Any] = reply.json()
        return document

    def callback(
        self,
        wait: dict[str, Any],
        body: Any = None,
        *,
        service: str = "external-service",
        **headers: str,
    ) -> dict[str, Any]:
        """Send the API response of this wait; the verdict."""
        return self._event(f"/api/internal/callbacks/{service}", wait, body, headers)

    def event(
        self,
        wait: dict[str, Any],
        body: Any = None,
        *,
        topic: str = "process.completed",
        **headers: str,
    ) -> dict[str, Any]:
        """Send a Kafka event of this wait by HTTP; the verdict."""
        return self._event(f"/api/internal/events/{topic}", wait, body, headers)

    def _event(
        self, path: str, wait: dict[str, Any], body: Any, headers: dict[str, str]
    ) -> dict[str, Any]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        reply = self.http.post(
            path, json={"ok": True} if body is None else body, headers=id_headers(wait) | named
        )
        assert reply.status_code == 200, reply.text
        document: dict[str, Any] = reply.json()
        return document

    def show(self, wait: dict[str, Any], /, **params: Any) -> dict[str, Any]:
        """The wait state as it is now."""
        reply = self.http.get(
            f"/api/wait-states/{wait['executionId']}/{wait['correlationId']}", params=params
        )
        assert reply.status_code == 200, reply.text
        document: dict[str, Any] = reply.json()
        return document

    def actor(self, name: str) -> dict[str, Any]:
        """One actor as the status tells it; one that is just being replaced is not alive."""
        actors = self.http.get("/api/status").json()["actors"]
        found: dict[str, Any] = next(
            (actor for actor in actors if actor["name"] == name), {"name": name, "alive": False}
        )
        return found

    def running_pid(self, name: str) -> int:
        """The process of an actor, once it runs; a supervisor that came back knows some later."""

        def pid() -> int | None:
            actor = self.actor(name)
            return actor["pid"] if actor["alive"] else None

        found: int = until(f"{name} runs", pid)
        return found

    def cli(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the command line against this instance."""
        done = run_cli(*arguments, env={"MUSTER_DATA_DIR": str(self.data_dir)})
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done


def run_cli(
    *arguments: str, env: dict[str, str] | None = None, within: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run the `muster` command as a process of its own."""
    environment = os.environ | PLAIN | (env or {})
    if arguments[:1] != ("up",):  # which becomes a host, and is to begin as one
        return command_server().run(arguments, environment, within)
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )


@contextlib.contextmanager
def running_product(data_dir: Path, *flags: str, **settings: str) -> Iterator[Product]:
    """Start Muster in the background on a free port; stop it, and see that nothing is left."""
    port = free_port()
    up = ["up", "--detach", "--json", "--data-dir", str(data_dir), "--port", str(port), *flags]
    env = {f"MUSTER_{name.upper()}": value for name, value in settings.items()}
    with watched(*of_instance(data_dir)):
        try:
            done = run_cli(*up, env=env, within=START_WITHIN)
            assert done.returncode == 0, done.stdout + done.stderr
            started = json.loads(done.stdout.splitlines()[-1])
            headers = {"Authorization": f"Bearer {started['key']}"}
            with httpx.Client(
                base_url=started["url"], headers=headers, timeout=30, trust_env=False
            ) as http:
                yield Product(started["url"], started["key"], started["pid"], data_dir, http)
        finally:
            stopped = run_cli("down", "--data-dir", str(data_dir))
            assert stopped.returncode == 0, stopped.stdout + stopped.stderr


def new_id() -> str:
    """An id nobody has used."""
    return uuid.uuid4().hex


def id_headers(wait: dict[str, Any] | None = None) -> dict[str, str]:
    """The ids of a wait as headers; without one, ids nobody has used."""
    wait = wait or {"executionId": new_id(), "correlationId": new_id()}
    return {"X-Execution-Id": wait["executionId"], "X-Correlation-Id": wait["correlationId"]}
