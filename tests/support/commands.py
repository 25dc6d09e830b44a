"""What the `muster` command says, as a script reads it."""

import json
import subprocess
from typing import Any, NamedTuple

from tests.support.product import new_id


def read(done: "subprocess.CompletedProcess[str]") -> Any:
    """What a script reads from the command's output."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(done: "subprocess.CompletedProcess[str]", code: int = 1) -> str:
    """The one sentence of a command that failed."""
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr.strip()


class WaitIds(NamedTuple):
    """An execution and a correlation, as the command line takes them."""

    execution: str
    correlation: str

    @classmethod
    def new(cls) -> "WaitIds":
        """Ids nobody has used."""
        return cls(f"e-{new_id()[:8]}", f"c-{new_id()[:8]}")

    @property
    def options(self) -> tuple[str, ...]:
        """For a registration."""
        return ("--execution", self.execution, "--correlation", self.correlation)

    @property
    def document(self) -> dict[str, Any]:
        """As the HTTP API names them."""
        return {"executionId": self.execution, "correlationId": self.correlation}
