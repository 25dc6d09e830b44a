"""librdkafka's mock broker in a process of its own, for machines where Apache Kafka cannot run."""

import importlib.util
import os
import sys
from pathlib import Path

from host.detach import last_lines, spawn
from host.errors import HostError
from host.kafka import mock_program
from host.kafka.broker import (
    Broker,
    BrokerKind,
    await_ready,
    identify_child,
    is_answering,
    running_broker,
    stop,
    write_broker_file,
)

START_WITHIN = 60.0
_NOWHERE = "127.0.0.1:0"
LIMITATIONS = (
    "a second member in a consumer group",
    "topics made on purpose (one appears when it is first named, with four partitions)",
    "anything over a restart (it keeps the last 5 MB of a partition, in memory)",
    "a port that stays the same",
)


def start(folder: Path, *, reason: str) -> Broker:
    """Start the mock broker and wait until it answers; `reason` says why it is not Apache Kafka."""
    folder = folder.expanduser().resolve()
    if importlib.util.find_spec("confluent_kafka") is None:
        raise HostError(
            f"No Kafka can be started here: {reason} The mock broker that would take its place is "
            "not installed either: install muster[embedded], or give --kafka HOST:PORT."
        )
    if (left := running_broker(folder)) is not None:
        stop(left)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = folder / "mock.log"
        pid = spawn([sys.executable, "-P", mock_program.__file__], log, os.environ)
    except OSError as error:
        raise HostError(f"The mock broker cannot use {folder}: {error.strerror}.") from error
    starting = Broker(
        kind=BrokerKind.MOCK,
        name="librdkafka's mock broker",
        bootstrap=_NOWHERE,
        process=identify_child(pid),
        folder=folder,
        reason=reason,
        lacks=LIMITATIONS,
    )
    write_broker_file(starting)
    try:
        await_ready(starting, lambda: is_answering(_address(log)), within=START_WITHIN)
    except HostError as error:
        raise HostError(f"{error} {last_lines(log)} (log: {log})") from None
    broker = starting.model_copy(update={"bootstrap": _address(log)})
    write_broker_file(broker)
    return broker


def _address(log: Path) -> str:
    """Return the address that the program prints first; until then, one that nobody listens on."""
    lines = log.read_text(errors="replace").split("\n")
    told = [line for line in lines[:-1] if line.startswith(mock_program.PREFIX)]
    return told[0].removeprefix(mock_program.PREFIX) if told else _NOWHERE
