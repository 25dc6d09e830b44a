"""Ray on this machine: one node on loopback, owned by this process."""

import logging
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from host import ports
from host.errors import HostError
from host.paths import InstancePaths
from host.processes import find_processes_in, terminate_all
from host.proxy import haproxy
from host.proxy.haproxy_limits import DEFAULT_LIMITS, ProxyLimits
from host.ray import flags
from host.signals import keeping_sigterm
from host.start_deadline import progress_marks
from storage.encryption.key_file import write_private

NAMESPACE = "muster"
OBJECT_STORE_BYTES = 200 * 1024 * 1024  # events travel inline; this must fit a small /dev/shm
SERVES_WORKERS = 4  # Serve needs so many processes, and at once


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    host: str = ports.LOOPBACK
    port: int = 8000
    actors: int = 0  # how many there will be beside those of Serve
    dashboard: bool = False
    bounds: ProxyLimits = DEFAULT_LIMITS


@dataclass(slots=True)
class RayNode:
    """A running Ray node and the connection of this process to it."""

    places: InstancePaths
    options: NodeOptions
    behind_haproxy: bool
    notes: tuple[str, ...]
    _node: Any

    @classmethod
    def start(cls, at: InstancePaths, options: NodeOptions) -> "RayNode":
        """Start Ray's processes in a prepared run folder.

        If this fails, the caller has to end the processes of the run folder.
        """
        if threading.current_thread() is not threading.main_thread():
            # The kernel ends Ray's processes together with the thread that started them.
            raise HostError("Ray must be started from the main thread.")
        front, notes = _front(at, options)
        write_private(at.token, secrets.token_hex(32))
        flags.apply(flags.host_flags(at, front, os.environ))
        try:
            node = _start_node(at, options)
        except Exception as error:
            raise HostError(f"Ray did not start: {error} Its logs: {at.kept_logs}.") from error
        return cls(at, options, front.launcher is not None, notes, node)

    def join(self) -> None:
        try:
            _join(self.places, self.address)
        except Exception as error:
            raise HostError(f"Ray did not answer: {error} See {self.places.kept_logs}.") from error

    @property
    def address(self) -> str:
        return str(self._node.gcs_address)

    @property
    def session(self) -> str:
        return str(self._node.session_name)

    @property
    def dashboard_url(self) -> str | None:
        return f"http://{self._node.webui_url}" if self._node.webui_url else None

    @property
    def logs(self) -> Path:
        return Path(self._node.get_logs_dir_path())

    def dead_processes(self) -> list[str]:
        """Return the names of Ray's processes that have ended by themselves."""
        return [str(kind) for kind, _process in self._node.dead_processes()]

    def stop(self) -> None:
        """Disconnect, and end Ray and all that it started; raise HostError if that fails."""
        import ray  # noqa: PLC0415  imported by now: this only finds it

        ray.shutdown()
        # The raylet goes first, else it would restart the actors whose processes are ended.
        self._node.kill_all_processes(check_alive=False, allow_graceful=True, wait=True)
        left = terminate_all(lambda: find_processes_in(self.places.run_dir), grace=0.5)
        if left:
            raise HostError(f"Could not end {', '.join(str(process.pid) for process in left)}.")


@contextmanager
def joined(at: InstancePaths, address: str) -> Iterator[None]:
    """Connect to a running instance as one more driver."""
    flags.apply(flags.client_flags(at))
    _join(at, address)
    import ray  # noqa: PLC0415

    try:
        yield
    finally:
        ray.shutdown()


def _front(at: InstancePaths, options: NodeOptions) -> tuple[flags.ProxySetup, tuple[str, ...]]:
    program = haproxy.find_program()
    wanted = haproxy.ProxyOptions(host=options.host, port=options.port, bounds=options.bounds)
    launcher = program and haproxy.write_launcher(at.haproxy, program, wanted)
    notes: tuple[str, ...] = ()
    if program is None:
        notes = ("HAProxy was not found: Serve's own proxy is used, at about a tenth of the rate.",)
    elif launcher is None:
        notes = (f"Programs in {at.haproxy} may not be executed: Serve's own proxy is used.",)
    front = flags.ProxySetup(
        launcher=launcher,
        fallback_port=ports.free_port(),
        replica_ports=ports.free_block(int(at.run_dir.name[-8:], 16)),
    )
    return front, notes


def _start_node(at: InstancePaths, options: NodeOptions) -> Any:
    # `ray.init` would do with one call, but it always starts an autoscaler, a log forwarder and
    # an API server, which nobody here talks to and which take seconds of a small machine's start.
    from ray._private.parameter import RayParams  # noqa: PLC0415  after the flags

    from host.ray.head_node import HeadNode  # noqa: PLC0415

    settings = RayParams(
        node_ip_address=ports.LOOPBACK,
        # Ray starts as many workers ahead as it thinks it has CPUs: all that will be needed, now,
        # while there is nothing else to do. Nobody here asks for CPUs.
        num_cpus=max(SERVES_WORKERS + options.actors, os.cpu_count() or 1),
        num_gpus=0,
        object_store_memory=OBJECT_STORE_BYTES,
        temp_dir=str(at.ray),
        worker_path=str(Path(__file__).with_name("worker.py")),
        include_dashboard=options.dashboard,
        dashboard_host=ports.LOOPBACK,
        dashboard_port=ports.free_port(),
        dashboard_agent_listen_port=0,  # 0: a free one, chosen by Ray
        min_worker_port=0,
        max_worker_port=0,
        include_log_monitor=False,
        no_monitor=True,
    )
    # Workers inherit the working folder. Ours holds no Python file, so whatever lies in the
    # folder where the command was typed cannot stand in front of our modules.
    with chdir(at.run_dir):
        return HeadNode(settings, partial(progress_marks, at))


def _join(at: InstancePaths, address: str) -> None:
    import ray  # noqa: PLC0415  after the flags

    # Ray also puts the driver's working folder in front of every worker's module path.
    with chdir(at.run_dir), keeping_sigterm():
        ray.init(
            address=address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
