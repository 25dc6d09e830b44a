"""Hosts as processes of their own: real Ray, real Serve, and nothing of them outlives a test."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil

from host.paths import instance_paths
from host.ports import free_port
from host.processes import ProcessIdentity, find_process, find_processes_in, identify_process
from host.start_deadline import StartDeadline, progress_marks
from tests.support.process_logs import of_instance, watched

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "support" / "echo_host.py"


@dataclass
class Host:
    """A host that a test has started, by the program that stands in for `muster up`."""

    process: "subprocess.Popen[str]"
    data_dir: Path
    port: int
    output: Path

    def get(self, path: str, timeout: float = 30) -> Any:
        """What it answers."""
        with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=timeout) as reply:
            return json.load(reply)

    def wait_until_up(self) -> None:
        """Until it serves."""
        self.until(lambda: "Serving on" in self.said, "the host serves")

    def until(self, met: Callable[[], object], what: str) -> None:
        """Until it has come so far in its start; as long as it gets on, it is waited for."""
        patience = StartDeadline(lambda: (self.said, progress_marks(instance_paths(self.data_dir))))
        while not (self.ended or met()):
            assert not patience.has_passed(), f"not within {patience.waited:.0f} s: {what}"
            time.sleep(0.05)
        assert not self.ended, self.said

    @property
    def ended(self) -> bool:
        """Whether its process is gone."""
        return self.process.poll() is not None

    @property
    def said(self) -> str:
        """All that it has printed."""
        return self.output.read_text()

    def family(self) -> list[ProcessIdentity]:
        """Every process of this host, itself included."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        working = find_processes_in(instance_paths(self.data_dir).run_dir)
        pids = {self.process.pid, *(process.pid for process in (*children, *working))}
        return [mark for mark in map(identify_process, pids) if mark is not None]

    def names(self) -> set[str]:
        """What those processes are called."""
        return {mark.name for mark in self.family()}


@contextmanager
def launched(
    data_dir: Path,
    *,
    port: int | None = None,
    python: Path | None = None,
    env: dict[str, str] | None = None,
    **options: Any,
) -> Iterator[Host]:
    """Start the program, and make sure that nothing of it outlives the test."""
    port = port or free_port()
    env = (env or dict(os.environ)) | {"PYTHONPATH": str(ROOT), "HOME": str(data_dir.parent)}
    with tempfile.NamedTemporaryFile("w", suffix=".out") as output:
        process = subprocess.Popen(
            [python or sys.executable, PROGRAM, "--data-dir", data_dir, "--port", str(port)],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=env,
            text=True,
            **options,
        )
        host = Host(process, data_dir, port, Path(output.name))
        with watched(host.output, *of_instance(data_dir)):
            try:
                yield host
            finally:
                if not host.ended:
                    stop(host, signal.SIGTERM)


@contextmanager
def started(data_dir: Path, **options: Any) -> Iterator[Host]:
    """Start the program, and wait until it serves."""
    with launched(data_dir, **options) as host:
        host.wait_until_up()
        yield host


def requests_under_way(host: Host) -> bool:
    """Whether somebody waits for its slow answer."""
    return bool(host.get("/under-way")["slow"])


def stop(host: Host, number: signal.Signals) -> None:
    """Send a signal, and see that it ends well."""
    host.process.send_signal(number)
    assert host.process.wait(timeout=60) == 0, host.said


def assert_gone(family: list[ProcessIdentity]) -> None:
    """None of these processes runs any more."""
    # Orphans are taken note of by init, which may be a moment late; they run no more by then.
    until(lambda: not any(map(find_process, family)), "all processes are gone", within=20)


def until(met: Callable[[], object], what: str, within: float = 60) -> None:
    """Wait for something; say what was missing if it never comes."""
    deadline = time.monotonic() + within
    while not met():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.05)
