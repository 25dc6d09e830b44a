"""Whole nodes of a Ray cluster, killed and frozen under load."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from host.paths import discard_run_dir, instance_paths
from host.postgres import embedded
from host.processes import find_processes_in, terminate_all
from tests.support.process_logs import of_instance, watched

START_WITHIN = 300.0  # three nodes, one after the other, beside whatever else runs
FLAWS = ("lost", "twice", "contaminated", "unfinished", "wrong")


class Cluster:
    """A process with three Ray nodes; see `cluster_host`."""

    def __init__(self, folder: Path, errors: Path) -> None:
        self._errors = errors
        with errors.open("wb") as stderr:
            self._host = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.cluster_host", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )

    def answer(self, within: float) -> dict[str, Any]:
        """The next thing it says; what it complained about if it says nothing."""
        watchdog = threading.Timer(within, self._host.kill)
        watchdog.start()
        try:
            assert self._host.stdout is not None
            line = self._host.stdout.readline()
        finally:
            watchdog.cancel()
        assert line, f"the cluster ended: {self._errors.read_text(errors='replace')[-4000:]}"
        told: dict[str, Any] = json.loads(line)
        return told

    def drill(self, name: str, within: float = 300.0, **options: Any) -> dict[str, Any]:
        """Do something to it; the account of it, of which this has checked what always holds."""
        assert self._host.stdin is not None
        self._host.stdin.write(json.dumps({"drill": name, **options}) + "\n")
        self._host.stdin.flush()
        told = self.answer(within)
        print(json.dumps({name: told}))  # noqa: T201  figures, for whoever runs pytest with -s
        assert {flaw: told[flaw] for flaw in FLAWS} == dict.fromkeys(FLAWS, 0), told["findings"]
        assert told["unexpected"] == {}
        assert told["given_up"] == 0
        assert told["acknowledged"] >= told["floor"]
        return told

    def end(self) -> None:
        """It ends when nobody can tell it anything any more."""
        with self._host as host:
            assert host.stdin is not None
            host.stdin.close()
            try:
                host.wait(timeout=20)
            except subprocess.TimeoutExpired:
                host.kill()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes with the product's actors and a Postgres; gone after, whatever happened."""
    folder = tmp_path_factory.mktemp("cluster")
    places = instance_paths(folder / ".muster")
    running = Cluster(places.data_dir, folder / "errors.txt")
    with watched(folder / "errors.txt", *of_instance(places.data_dir)):
        try:
            assert running.answer(within=START_WITHIN)["ready"]
            yield running
        finally:
            running.end()
            left = terminate_all(lambda: find_processes_in(places.run_dir), grace=0.0)
            embedded.stop(places.data_dir, mode="immediate")
            discard_run_dir(places)
            assert not left


LONG = os.environ.get("MUSTER_CHAOS") == "long"
ROUNDS = 3 if LONG else 1
FROZEN = 30.0 if LONG else 0.0  # seconds at least; Ray needs some to notice


@pytest.mark.timeout(ROUNDS * 600)
def test_a_killed_node_loses_nothing_and_its_actors_come_back_elsewhere(cluster: Cluster) -> None:
    for _ in range(ROUNDS):
        told = cluster.drill("kill_node")
        assert any(name.startswith("shard-") for name in told["hit"])
        assert told["back"]
        assert told["served_again"] < 120


@pytest.mark.timeout(ROUNDS * 600)
def test_a_frozen_node_wakes_up_to_find_all_its_writes_refused(cluster: Cluster) -> None:
    """Its shards hold decisions in memory; others have decided since; versions tell them so."""
    for _ in range(ROUNDS):
        told = cluster.drill("freeze_node", seconds=FROZEN)
        assert told["attempts"] >= told["at_least"] > 0
        assert told["flushes"] > 0
        assert told["accepted"] == 0
        assert told["back"]
        assert told["served_again"] < 120, "what a frozen shard holds must not hold up the others"


@pytest.mark.long
@pytest.mark.timeout(ROUNDS * 600)
def test_shards_that_outlive_their_raylet_do_no_harm(cluster: Cluster) -> None:
    """Ray starts second incarnations beside the living first ones."""
    for _ in range(ROUNDS):
        told = cluster.drill("freeze_node", seconds=FROZEN, whole=False)
        assert told["accepted"] == 0
        assert told["back"]


@pytest.mark.long
def test_a_crowded_machine_is_not_taken_for_a_dead_one(cluster: Cluster) -> None:
    dead = cluster.drill("crowded_machine", seconds=0, burners=0)["dead_nodes"]
    told = cluster.drill("crowded_machine", seconds=60, burners=8 * (os.cpu_count() or 1))
    assert told["dead_nodes"] == dead
    assert told["same_shards"]
