"""The broker that runs on a folder: its identity, whether it answers, and how it is stopped."""

import asyncio
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ValidationError

from host.detach import has_ended
from host.errors import HostError
from host.paths import InstancePaths
from host.processes import ProcessIdentity, find_process, identify_process, terminate_all
from storage.encryption.key_file import write_private

BROKER_FILE = "broker.json"
# Apache Kafka takes a second or two to close its logs; killed, it would recover them at the next
# start.
STOP_GRACE = 15.0
REAP_WITHIN = 5.0
POLL = 0.05


class BrokerKind(StrEnum):
    APACHE = "apache"
    MOCK = "mock"


class Broker(BaseModel, frozen=True):
    """A broker that was started here, as other commands see it."""

    kind: BrokerKind
    name: str
    bootstrap: str
    process: ProcessIdentity
    folder: Path
    reason: str | None = None  # why it is not Apache Kafka
    lacks: tuple[str, ...] = ()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    @property
    def alive(self) -> bool:
        return find_process(self.process) is not None

    def describe(self) -> str:
        """Name the broker; if it replaces Apache Kafka, add why and what it lacks."""
        if self.reason is None:
            return self.name
        return f"{self.name}, because {self.reason} It lacks: {'; '.join(self.lacks)}."


def running_broker(folder: Path) -> Broker | None:
    try:
        broker = Broker.model_validate_json((folder / BROKER_FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
    except PermissionError as error:
        raise HostError(f"{folder / BROKER_FILE} belongs to another user.") from error
    return broker if broker.alive else None


def stop(broker: Broker) -> None:
    """Terminate the broker, kill it if it does not end, and return when it is gone."""
    _end(broker, grace=STOP_GRACE)


def kill(broker: Broker) -> None:
    """End the broker as a power cut would: it closes nothing."""
    _end(broker, grace=0.0)


def await_ready(broker: Broker, ready: Callable[[], bool], *, within: float) -> None:
    """Wait until a broker that was just started is ready; kill it if it never is."""
    deadline = time.monotonic() + within
    try:
        while not has_ended(broker.pid) and time.monotonic() < deadline:
            if ready():
                return
            time.sleep(POLL)
    except BaseException:
        kill(broker)
        raise
    kill(broker)
    raise HostError(f"{broker.name} ended, or did not answer within {within:.0f} s.")


def write_broker_file(broker: Broker) -> None:
    """Record the broker in its folder, for `running_broker`."""
    write_private(broker.folder / BROKER_FILE, broker.model_dump_json(indent=2))


def identify_child(pid: int) -> ProcessIdentity:
    """Identify a process that was just started and is not reaped yet."""
    mark = identify_process(pid)
    if mark is None:
        raise HostError("Cannot read /proc: an embedded Kafka needs Linux with /proc mounted.")
    return mark


def is_answering(bootstrap: str) -> bool:
    host, _, port = bootstrap.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return asyncio.run(_has_brokers(bootstrap))


async def _has_brokers(bootstrap: str) -> bool:
    from aiokafka.client import AIOKafkaClient  # noqa: PLC0415  slow to import, and only needed here
    from aiokafka.errors import KafkaError  # noqa: PLC0415

    client = AIOKafkaClient(bootstrap_servers=bootstrap, request_timeout_ms=5_000)
    try:
        await client.bootstrap()
        return bool(client.cluster.brokers())
    except KafkaError:
        return False
    finally:
        await client.close()


def _end(broker: Broker, *, grace: float) -> None:
    left = terminate_all(lambda: filter(None, [find_process(broker.process)]), grace=grace)
    if left:
        raise HostError(f"Could not end {broker.name} (pid {broker.pid}).")
    _wait_until_reaped(broker)
    (broker.folder / BROKER_FILE).unlink(missing_ok=True)


def _wait_until_reaped(broker: Broker) -> None:
    """Wait until the process is reaped: a zombie's threads may still hold its port and files.

    We reap our own children; any other process is reaped by its parent.
    """
    deadline = time.monotonic() + REAP_WITHIN
    while identify_process(broker.pid) == broker.process and time.monotonic() < deadline:
        with suppress(ChildProcessError):
            os.waitpid(broker.pid, os.WNOHANG)
        time.sleep(POLL / 10)


def stop_kafka(places: InstancePaths) -> bool:
    """Stop the embedded broker of an instance; return False if there was none."""
    broker = running_broker(places.kafka)
    if broker is not None:
        stop(broker)
    return broker is not None


def kill_kafka(places: InstancePaths) -> None:
    broker = running_broker(places.kafka)
    if broker is not None:
        kill(broker)
