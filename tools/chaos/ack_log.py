"""The generator's own book: what it was promised, one line each, written before anything else.

It is a file because it has to outlive the generator: `muster chaos account FILE` compares it
with the database at any later time.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self, TextIO

from tools.chaos.scenario import ChaosScenario, RequestChannel, ScenarioShape, ScenarioStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """One acknowledged request: the product has said that this is in Postgres."""

    at: float
    """Seconds since the run began."""
    execution_id: str
    correlation_id: str
    shape: ScenarioShape
    door: RequestChannel
    event_id: str = ""
    verdict: str = ""
    reason: str = ""

    @property
    def correlation_key(self) -> tuple[str, str]:
        """The correlation it belongs to."""
        return self.execution_id, self.correlation_id


def make_ack(story: ChaosScenario, step: ScenarioStep, reply: dict[str, Any], at: float) -> Ack:
    """Build the log line of an acknowledged request."""
    return Ack(
        at=round(at, 3),
        execution_id=story.execution_id,
        correlation_id=story.correlation_id,
        shape=story.shape,
        door=step.door,
        event_id=step.event_id,
        verdict=str(reply.get("verdict", "")),
        reason=str(reply.get("reason", "")),
    )


@dataclass(slots=True)
class AckLog:
    """Append-only; in memory as well."""

    path: Path
    acks: list[Ack] = field(default_factory=list)
    _file: TextIO | None = None
    _left_out: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def create(cls, path: Path) -> Self:
        """Create a log; refuse to overwrite an existing one."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Each line is handed to the system at once: our own end loses none of them.
        return cls(path, _file=path.open("x", encoding="utf-8", buffering=1))

    def note(self, ack: Ack) -> None:
        """Write down what was acknowledged."""
        if self._file is None:
            raise ValueError(f"{self.path} is closed")
        self._file.write(json.dumps(asdict(ack), separators=(",", ":")) + "\n")
        if ack.correlation_key not in self._left_out:
            self.acks.append(ack)

    def forget_earlier(self) -> None:
        """Leave every correlation out that was written of so far; the file keeps all of them."""
        self._left_out |= {ack.correlation_key for ack in self.acks}
        self.acks.clear()

    def close(self) -> None:
        """No more lines."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read_ack_log(path: Path) -> list[Ack]:
    """Read the log of a run, which may have been killed."""
    with path.open(encoding="utf-8") as file:
        return list(_acks(file))


def _acks(lines: Iterable[str]) -> Iterator[Ack]:
    for line in lines:
        if not line.endswith("\n"):
            return  # the writer died in the middle of it: then nobody counted on it
        fields = json.loads(line)
        yield Ack(
            **fields
            | {"shape": ScenarioShape(fields["shape"]), "door": RequestChannel(fields["door"])}
        )
