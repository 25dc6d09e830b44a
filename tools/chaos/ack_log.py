"""The load's own log: what was acknowledged, one line each, written before anything else.

It is a file because it has to outlive the load: `muster chaos account FILE` compares it with the
database at any later time.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Self

import msgspec

from tools.chaos.requests import CorrelationKey
from tools.chaos.scenario import ChaosScenario, RequestChannel, ScenarioShape, ScenarioStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """One acknowledged request: the product has said that this is in Postgres."""

    at: float
    """Seconds since the run began."""
    execution_id: str
    correlation_id: str
    shape: ScenarioShape
    channel: RequestChannel
    event_id: str = ""
    verdict: str = ""
    reason: str = ""

    @property
    def correlation_key(self) -> CorrelationKey:
        return self.execution_id, self.correlation_id


def make_ack(scenario: ChaosScenario, step: ScenarioStep, reply: dict[str, Any], at: float) -> Ack:
    return Ack(
        at=round(at, 3),
        execution_id=scenario.execution_id,
        correlation_id=scenario.correlation_id,
        shape=scenario.shape,
        channel=step.channel,
        event_id=step.event_id,
        verdict=str(reply.get("verdict", "")),
        reason=str(reply.get("reason", "")),
    )


@dataclass(slots=True)
class AckLog:
    """Append-only; in memory as well."""

    path: Path
    acks: list[Ack] = field(default_factory=list)
    _file: BinaryIO | None = None
    _left_out: set[CorrelationKey] = field(default_factory=set)

    @classmethod
    def create(cls, path: Path) -> Self:
        """Create a log; refuse to overwrite an existing one."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Unbuffered: each line is handed to the system at once, so that our own end loses none.
        return cls(path, _file=path.open("xb", buffering=0))

    def note(self, ack: Ack) -> None:
        if self._file is None:
            raise ValueError(f"{self.path} is closed")
        self._file.write(msgspec.json.encode(ack) + b"\n")
        if ack.correlation_key not in self._left_out:
            self.acks.append(ack)

    def forget_earlier(self) -> None:
        """Leave out every correlation that is in the log so far; the file keeps all of them."""
        self._left_out |= {ack.correlation_key for ack in self.acks}
        self.acks.clear()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def read_ack_log(path: Path) -> list[Ack]:
    """Read the log of a run. One that was killed may have cut off the last line."""
    lines = path.read_bytes().splitlines(keepends=True)
    whole = [line for line in lines if line.endswith(b"\n")]
    return [msgspec.json.decode(line, type=Ack) for line in whole]
