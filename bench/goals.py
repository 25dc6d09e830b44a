"""What a figure has to reach, written as people write it: "≥ 5", "≤ 0.25 s"."""

import re
from dataclasses import dataclass

_WRITTEN = re.compile(r"([≥≤]) ([\d.]+)(?: (\S+))?")


@dataclass(frozen=True, slots=True)
class Goal:
    """At least or at most this much."""

    at_least: bool
    bound: float
    unit: str

    @classmethod
    def read(cls, written: str) -> "Goal":
        """Read it; anything that is not a goal is a mistake in a scenario."""
        found = _WRITTEN.fullmatch(written)
        if found is None:
            raise ValueError(f"not a goal: {written!r}")
        return cls(found.group(1) == "≥", float(found.group(2)), found.group(3) or "")

    def met_by(self, value: float) -> bool:
        """Whether this is enough."""
        return value >= self.bound if self.at_least else value <= self.bound

    def headroom(self, value: float) -> float:
        """How many times better than asked for; below 1 the goal is missed."""
        if self.at_least:
            return value / self.bound
        # Nothing at all is as good as it gets; a finite number can be drawn.
        return self.bound / max(value, self.bound / 100)
