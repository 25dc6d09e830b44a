"""Exponential backoff. Jitter is an argument, so that the result is reproducible."""


def backoff(attempt: int, *, base: float, cap: float, jitter: float) -> float:
    """Return the seconds before try `attempt + 1`, doubled each time up to `cap`, half random."""
    ceiling = min(cap, base * (1 << min(attempt, 30)))
    return ceiling * (0.5 + jitter / 2)
