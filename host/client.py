"""Other local commands join the running instance as one more driver."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from host.errors import HostError
from host.instance import Instance, read_instance
from host.paths import places_of
from host.processes import find
from host.ray.node import joined


def running(data_dir: Path) -> Instance:
    """The instance that runs on a data folder."""
    places = places_of(data_dir)
    instance = read_instance(places)
    if instance is None or find(instance.host) is None:
        raise HostError(f"Nothing runs on {places.data_dir}. Start it with: muster up")
    return instance


@contextmanager
def connect(data_dir: Path) -> Iterator[Instance]:
    """Join the Ray node of a running instance for as long as the block lasts."""
    instance = running(data_dir)
    if instance.ray_address is None:
        raise HostError(f"The host on {instance.data_dir} is {instance.stage}; try again.")
    with joined(places_of(data_dir), instance.ray_address):
        yield instance
