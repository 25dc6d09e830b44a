"""Connects local commands to the running instance as one more Ray driver."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from host.errors import HostError
from host.instance import HostInstance, read_instance
from host.paths import instance_paths
from host.processes import find_process
from host.ray.node import joined


def running_instance(data_dir: Path) -> HostInstance:
    """Return the instance that runs on a data folder; raise HostError if none does."""
    places = instance_paths(data_dir)
    instance = read_instance(places)
    if instance is None or find_process(instance.host) is None:
        raise HostError(f"Nothing runs on {places.data_dir}. Start it with: muster up")
    return instance


@contextmanager
def connect(data_dir: Path) -> Iterator[HostInstance]:
    instance = running_instance(data_dir)
    if instance.ray_address is None:
        raise HostError(f"The host on {instance.data_dir} is {instance.stage}; try again.")
    with joined(instance_paths(data_dir), instance.ray_address):
        yield instance
