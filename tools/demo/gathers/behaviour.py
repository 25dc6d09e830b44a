"""What a resource of the demo does when it is called."""

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


# Delays that stand for what no delay can say. Every other negative one is an error.
BY_DELAY = {
    -1: Behaviour.REJECT,
    -10: Behaviour.HANG,
    -11: Behaviour.CLOSE,
    -12: Behaviour.SILENT,
    -13: Behaviour.TWICE,
}


def behaviour_of(delay: int) -> Behaviour:
    """What a delay asks for."""
    return Behaviour.ANSWER if delay >= 0 else BY_DELAY.get(delay, Behaviour.ERROR)


def direct_behaviour_of(delay: int) -> Behaviour:
    """The same for a direct call, which answers a negative delay with a rejection."""
    asked = behaviour_of(delay)
    return Behaviour.REJECT if asked is Behaviour.ERROR else asked
