"""Several Ray nodes on this machine, each with processes of its own: to be killed and frozen.

Only for a process that has not imported Ray yet: Ray reads its flags at import.
"""

import json
import logging
import os
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from host import ports
from host.paths import InstancePaths
from host.processes import find_processes_in, terminate_all
from host.ray import flags
from storage.encryption.key_file import write_private

OBJECT_STORE_BYTES = 80 * 1024 * 1024


class Node:
    """One Ray node: its raylet, its agents and its workers."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self._raylet = inner.all_processes["raylet"][0].process
        self.raylet = psutil.Process(self._raylet.pid)

    @property
    def id(self) -> str:
        return str(self.inner.node_id)

    def processes(self) -> list[psutil.Process]:
        """The raylet first: whoever ends it first lets it notice nothing of the others' end."""
        with suppress(psutil.NoSuchProcess):
            return [self.raylet, *self.raylet.children(recursive=True)]
        return []

    def hosts(self, pid: int) -> bool:
        """Whether this process runs here."""
        return any(process.pid == pid for process in self.processes())

    def kill(self) -> None:
        """As if the power failed: nothing on this node gets a chance to say good-bye."""
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.reap()

    def reap(self) -> None:
        """Wait for the raylet. A raylet that nobody waited for seems alive to its workers."""
        self._raylet.wait(timeout=30)


def send(processes: list[psutil.Process], number: signal.Signals) -> None:
    """One signal to many, as fast as can be; who is gone meanwhile needs none."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


class Nodes:
    """A cluster of loopback nodes, closed by the product's own flags, and our driver in it."""

    def __init__(self, places: InstancePaths, cluster: Any) -> None:
        self._places = places
        self._cluster = cluster
        self.head = Node(cluster.head_node)
        self.others: list[Node] = []

    @property
    def all(self) -> list[Node]:
        return [self.head, *self.others]

    def said(self, pid: int, event: str) -> list[dict[str, Any]]:
        """What a worker, perhaps a dead one, has logged of this kind."""
        logs = Path(self.head.inner.get_logs_dir_path()).glob(f"worker-*-{pid}.err")
        lines = (line for log in logs for line in log.read_text(errors="replace").splitlines())
        return [json.loads(line) for line in lines if f'"event":"{event}"' in line]

    def add(self) -> Node:
        """One more node."""
        node = Node(self._cluster.add_node(**_settings()))
        self.others.append(node)
        return node

    def forget(self, node: Node) -> None:
        """It is dead; nobody need stop it at the end."""
        self.others.remove(node)
        self._cluster.worker_nodes.discard(node.inner)

    def node_of(self, pid: int) -> Node | None:
        """The living node that this process runs on."""
        return next((node for node in self.all if node.hosts(pid)), None)


@contextmanager
def running_nodes(places: InstancePaths, count: int) -> Iterator[Nodes]:
    """Start Ray and join it; leaves no process, however the block ends."""
    write_private(places.token, secrets.token_hex(32))
    front = flags.ProxySetup(None, ports.free_port(), ports.free_block(os.getpid()))
    flags.apply(flags.host_flags(places, front, os.environ))
    os.environ["RAY_TMPDIR"] = str(places.run_dir)  # else it notes its address for all to see
    os.chdir(places.run_dir)
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        cluster.add_node(temp_dir=str(places.ray), no_monitor=True, **_settings())
        nodes = Nodes(places, cluster)
        for _ in range(count - 1):
            nodes.add()
        ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        yield nodes
    finally:
        ray.shutdown()
        left = terminate_all(lambda: find_processes_in(places.run_dir), grace=0.0)
        assert not left, left


def _settings() -> dict[str, Any]:
    return {
        "node_ip_address": ports.LOOPBACK,
        "num_cpus": 1,
        "object_store_memory": OBJECT_STORE_BYTES,
        "include_dashboard": False,
        "include_log_monitor": False,
        "dashboard_agent_listen_port": 0,
    }
