"""The processes of one local instance that may be killed, by what they are."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from host.processes import PROCESS_GONE, find_processes_in


class VictimKind(StrEnum):
    """What a process does."""

    SHARD = "shard"
    TIMER = "timer"
    MAINTENANCE = "maintenance"
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
    "ray::ShardActor": VictimKind.SHARD,
    "ray::TimerActor": VictimKind.TIMER,
    "ray::MaintenanceActor": VictimKind.MAINTENANCE,
    "ray::SupervisorActor": VictimKind.SUPERVISOR,
    "ray::PoolActor": VictimKind.POOL,
    "ray::DispatchActor": VictimKind.DISPATCH,
    "ray::KafkaIngestActor": VictimKind.KAFKA_INGEST,
    "ray::RelayActor": VictimKind.RELAY,
    "ray::ServeReplica": VictimKind.INGRESS,
    "ray::ServeController": VictimKind.CONTROLLER,
    "ray::ProxyActor": VictimKind.PROXY,
    "ray::HAProxyManager": VictimKind.PROXY,
    "haproxy": VictimKind.HAPROXY,
}


@dataclass(frozen=True, slots=True)
class Victim:
    """A process that may be killed."""

    kind: VictimKind
    process: psutil.Process

    def __str__(self) -> str:
        return f"{self.kind} (pid {self.process.pid})"

    def kill(self) -> None:
        """End it by SIGKILL; psutil refuses if the number belongs to another process by now."""
        self.process.kill()


def victim_kind(title: str) -> VictimKind | None:
    """Classify a process by its title; None means that no fault may kill it."""
    return next((kind for begin, kind in _TITLES.items() if title.startswith(begin)), None)


def find_victims(run_dir: Path, kinds: frozenset[VictimKind]) -> list[Victim]:
    """Every process of these kinds that runs now in this instance, and in no other."""
    found: list[Victim] = []
    for process in find_processes_in(run_dir):
        try:
            kind = victim_kind(process.name())
        except PROCESS_GONE:
            continue
        if kind in kinds:
            found.append(Victim(kind, process))
    return found
