"""How long to wait before trying again. Chance comes in as an argument."""


def backoff(attempt: int, *, base: float, cap: float, jitter: float) -> float:
    """Seconds before try `attempt + 1`; doubles up to `cap`, spread over its upper half."""
    ceiling = min(cap, base * (1 << min(attempt, 30)))
    return ceiling * (0.5 + jitter / 2)
