"""The processes of one local instance that may be killed, by what they are."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from host.processes import GONE, find_in


class Kind(StrEnum):
    """What a process does."""

    SHARD = "shard"
    TIMER = "timer"
    SUPERVISOR = "supervisor"
    POOL = "pool"
    DISPATCH = "dispatch"
    KAFKA_INGEST = "kafka-ingest"
    RELAY = "relay"
    INGRESS = "ingress"
    CONTROLLER = "controller"
    PROXY = "proxy"
    HAPROXY = "haproxy"


# By the beginning of the process's title. Ray's own control processes are not among them: on one
# machine they are the node itself, and the host ends with them by design.
_TITLES = {
    "ray::ShardActor": Kind.SHARD,
    "ray::TimerActor": Kind.TIMER,
    "ray::SupervisorActor": Kind.SUPERVISOR,
    "ray::PoolActor": Kind.POOL,
    "ray::DispatchActor": Kind.DISPATCH,
    "ray::KafkaIngestActor": Kind.KAFKA_INGEST,
    "ray::RelayActor": Kind.RELAY,
    "ray::ServeReplica": Kind.INGRESS,
    "ray::ServeController": Kind.CONTROLLER,
    "ray::ProxyActor": Kind.PROXY,
    "ray::HAProxyManager": Kind.PROXY,
    "haproxy": Kind.HAPROXY,
}


@dataclass(frozen=True, slots=True)
class Victim:
    """A process that may be killed."""

    kind: Kind
    process: psutil.Process

    def __str__(self) -> str:
        return f"{self.kind} (pid {self.process.pid})"

    def kill(self) -> None:
        """End it by SIGKILL; psutil refuses if the number belongs to another process by now."""
        self.process.kill()


def kind_of(title: str) -> Kind | None:
    """What a process of this title does; None leaves it alone."""
    return next((kind for begin, kind in _TITLES.items() if title.startswith(begin)), None)


def victims(run_dir: Path, kinds: frozenset[Kind]) -> list[Victim]:
    """Every process of these kinds that runs now in this instance, and in no other."""
    found: list[Victim] = []
    for process in find_in(run_dir):
        try:
            kind = kind_of(process.name())
        except GONE:
            continue
        if kind in kinds:
            found.append(Victim(kind, process))
    return found
