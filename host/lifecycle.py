"""The life of a host: claim the data folder, start, watch, stop; and how others stop it."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psutil

from host import paths
from host.errors import HostError
from host.instance import (
    HostInstance,
    HostStage,
    KafkaLink,
    is_locked,
    read_instance,
    sole_host,
    write_instance,
)
from host.paths import InstancePaths
from host.ports import require_free
from host.processes import (
    ProcessIdentity,
    find_process,
    find_processes_in,
    identify_process,
    terminate_all,
)
from host.ray.node import NodeOptions, RayNode
from host.ray.serving import stop_serving
from host.signals import StopSignals
from settings.parsing import url_of

Say = Callable[[str], None]
WATCH_EVERY = 1.0


@contextmanager
def claim(data_dir: Path, options: NodeOptions, say: Say) -> Iterator[InstancePaths]:
    """Become the only host of a data folder, and remove what an earlier one left behind."""
    places = paths.instance_paths(data_dir)
    paths.prepare_data_dir(places)
    with sole_host(places):
        ended = end_leftovers(places)
        if ended:
            say(f"Ended {ended} processes that an earlier run had left behind")
        require_free(options.host, options.port)
        paths.prepare_run_dir(places)
        write_instance(places, _starting(places, options))
        try:
            yield places
        finally:
            places.instance.unlink(missing_ok=True)
            paths.discard_run_dir(places)


@contextmanager
def ray_up(
    places: InstancePaths, options: NodeOptions, signals: StopSignals, say: Say
) -> Iterator[RayNode]:
    """Run Ray while the block runs; leave no process, however the block ends."""
    started = time.monotonic()
    try:
        node = RayNode.start(places, options)
    except BaseException:
        signals.begin_stop()
        kill(places)
        raise
    try:
        with signals.defer():  # a half-connected driver crashes when it exits
            node.join()
        for note in node.notes:
            say(note)
        say(f"Ray is up ({time.monotonic() - started:.1f} s)")
        yield node
    finally:
        signals.begin_stop()
        _take_down(node, say)


def announce(places: InstancePaths, node: RayNode, kafka: KafkaLink | None = None) -> HostInstance:
    """Tell other commands that this host is up and healthy."""
    family = (identify_process(process.pid) for process in find_processes_in(places.run_dir))
    instance = (read_instance(places) or _starting(places, node.options)).model_copy(
        update={
            "stage": HostStage.UP,
            "ray_address": node.address,
            "ray_session": node.session,
            "dashboard_url": node.dashboard_url,
            "kafka": kafka,
            "processes": tuple(mark for mark in family if mark is not None),
        }
    )
    write_instance(places, instance)
    return instance


def watch(node: RayNode) -> None:
    """Wait for a signal; raise HostError if Ray ends by itself."""
    while True:
        dead = node.dead_processes()
        if dead:
            raise HostError(f"Ray ended unexpectedly ({', '.join(dead)}); see {node.logs}.")
        time.sleep(WATCH_EVERY)


def down(data_dir: Path, *, within: float = 20.0) -> str:
    """Stop the host of a data folder and return what was done, in one sentence."""
    places = paths.instance_paths(data_dir)
    if not places.lock.exists():
        return f"Nothing runs on {places.data_dir}."
    if is_locked(places):
        return _stop_host(places, read_instance(places), within)
    with sole_host(places):
        ended = end_leftovers(places)
    if ended:
        return f"Nothing ran on {places.data_dir}, but {ended} processes were left; ended them."
    return f"Nothing runs on {places.data_dir}."


def end_leftovers(places: InstancePaths) -> int:
    """End the processes that a dead host left behind; return their number."""
    instance = read_instance(places)
    recorded = instance.processes if instance else ()
    found = len(_left_by(places, recorded))
    left = terminate_all(lambda: _left_by(places, recorded), grace=0.0)
    if left:
        raise HostError(
            "Could not end the processes of an earlier run: "
            f"{', '.join(str(process.pid) for process in left)}."
        )
    if instance is not None or places.run_dir.exists():
        paths.discard_run_dir(places)
        places.instance.unlink(missing_ok=True)
    return found


def kill(places: InstancePaths) -> None:
    terminate_all(lambda: find_processes_in(places.run_dir), grace=0.0, within=2.0)


def _take_down(node: RayNode, say: Say) -> None:
    started = time.monotonic()
    instance = read_instance(node.places)
    if instance is not None:
        write_instance(node.places, instance.model_copy(update={"stage": HostStage.STOPPING}))
    try:
        if not node.dead_processes():  # a dead Ray never answers
            stop_serving(node)
    finally:
        node.stop()
    say(f"Ray is down ({time.monotonic() - started:.1f} s)")


def _starting(places: InstancePaths, options: NodeOptions) -> HostInstance:
    me = identify_process(os.getpid())
    if me is None:
        raise HostError("Cannot read /proc: Muster's host needs Linux with /proc mounted.")
    return HostInstance(
        host=me,
        stage=HostStage.STARTING,
        url=url_of(options.host, options.port),
        port=options.port,
        started_at=datetime.now(UTC),
        data_dir=places.data_dir,
        run_dir=places.run_dir,
    )


def _left_by(places: InstancePaths, recorded: tuple[ProcessIdentity, ...]) -> list[psutil.Process]:
    marked = (find_process(mark) for mark in recorded)
    return list({process for process in marked if process} | set(find_processes_in(places.run_dir)))


def _stop_host(places: InstancePaths, instance: HostInstance | None, within: float) -> str:
    host = find_process(instance.host) if instance else None
    if instance is None or host is None:
        raise HostError(f"A host is starting on {places.data_dir}; try again in a moment.")
    try:
        host.terminate()
        host.wait(timeout=within)
    except psutil.AccessDenied as error:
        raise HostError(f"The host (pid {host.pid}) belongs to another user.") from error
    except psutil.TimeoutExpired:
        terminate_all(lambda: [host], grace=0.0)
        with sole_host(places):
            end_leftovers(places)
        return f"The host (pid {host.pid}) did not stop within {within:.0f} s; killed it."
    with sole_host(places):
        end_leftovers(places)
    return f"Stopped {instance.url} (pid {host.pid})."
