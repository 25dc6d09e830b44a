"""The lock that admits one host per data folder, and the file that describes that host."""

import fcntl
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ValidationError

from host.errors import HostError
from host.paths import InstancePaths
from host.processes import ProcessIdentity
from storage.encryption.key_file import write_private


class HostStage(StrEnum):
    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"


class KafkaLink(BaseModel, frozen=True):
    """The Kafka that a host uses; `broker` describes it if the host runs it."""

    bootstrap: str
    broker: str | None = None


class HostInstance(BaseModel, frozen=True):
    """A running host, as other commands see it."""

    host: ProcessIdentity
    stage: HostStage
    url: str
    port: int
    started_at: datetime
    data_dir: Path
    run_dir: Path
    ray_address: str | None = None
    ray_session: str | None = None
    dashboard_url: str | None = None
    kafka: KafkaLink | None = None
    processes: tuple[ProcessIdentity, ...] = ()

    @property
    def pid(self) -> int:
        return self.host.pid


def read_instance(places: InstancePaths) -> HostInstance | None:
    """Read the file of the last host; None if it is missing or incomplete."""
    try:
        return HostInstance.model_validate_json(places.instance.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    except PermissionError as error:
        raise HostError(f"{places.instance} belongs to another user.") from error


def write_instance(places: InstancePaths, instance: HostInstance) -> None:
    write_private(places.instance, instance.model_dump_json(indent=2))


@contextmanager
def sole_host(places: InstancePaths) -> Iterator[None]:
    """Hold the data folder's lock; the system drops it when the process ends, however it ends."""
    try:
        descriptor = os.open(places.lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise HostError(f"Cannot open {places.lock}: {error.strerror}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise already_running_error(places) from None
    else:
        yield
    finally:
        os.close(descriptor)


def is_locked(places: InstancePaths) -> bool:
    try:
        descriptor = os.open(places.lock, os.O_RDWR)
    except FileNotFoundError:
        return False
    except PermissionError as error:
        raise HostError(f"{places.lock} belongs to another user.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def already_running_error(places: InstancePaths) -> HostError:
    """Say why a second host may not start here."""
    found = read_instance(places)
    who = f"pid {found.pid}, {found.url}" if found else "still starting"
    return HostError(
        f"Muster already runs on {places.data_dir} ({who}). "
        f"Stop it with: muster down --data-dir {shlex.quote(str(places.data_dir))}"
    )
