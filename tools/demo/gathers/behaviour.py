"""What a resource of the demo does with a call."""

from enum import StrEnum


class Behaviour(StrEnum):
    """The ways a resource may take a call."""

    ANSWER = "answer"  # accepts, and calls back after the delay
    REJECT = "reject"  # 401
    ERROR = "error"  # 500
    HANG = "hang"  # never answers
    CLOSE = "close"  # closes the connection without an answer
    SILENT = "silent"  # accepts, and never calls back
    TWICE = "twice"  # accepts, and calls back twice


# Negative delays stand for behaviours; those that are not listed are errors.
BY_DELAY = {
    -1: Behaviour.REJECT,
    -10: Behaviour.HANG,
    -11: Behaviour.CLOSE,
    -12: Behaviour.SILENT,
    -13: Behaviour.TWICE,
}


def behaviour_of(delay: int) -> Behaviour:
    """Decode the behaviour that a delay stands for."""
    return Behaviour.ANSWER if delay >= 0 else BY_DELAY.get(delay, Behaviour.ERROR)


def direct_behaviour_of(delay: int) -> Behaviour:
    """Decode the delay of a direct call, which rejects where others fail."""
    behaviour = behaviour_of(delay)
    return Behaviour.REJECT if behaviour is Behaviour.ERROR else behaviour
