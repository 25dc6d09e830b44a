"""Replay a seed, or try a range: `python -m tests.simulation 17` or `… 0 1000000`."""

import sys
import time

import structlog

from tests.simulation.clockwork import simulate
from tests.simulation.scenario import play


def main(first: int, last: int) -> int:
    """Play seeds first..last; the first failing one ends it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    started = time.perf_counter()
    for seed in range(first, last):
        try:
            simulate(play(seed))
        except Exception:
            sys.stdout.write(f"seed {seed} breaks a law\n")
            raise
        if seed % 1000 == 999:
            rate = (seed + 1 - first) / (time.perf_counter() - started)
            sys.stdout.write(f"{seed + 1} seeds, {rate:.0f} a second\n")
    sys.stdout.write(f"seeds {first}..{last - 1}: every law held\n")
    return 0


if __name__ == "__main__":
    start = int(sys.argv[1])
    sys.exit(main(start, int(sys.argv[2]) if len(sys.argv) > 2 else start + 1))
