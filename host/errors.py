class HostError(Exception):
    """The host cannot go on; the message is one sentence for the person at the terminal."""


class MissingPartError(HostError):
    """Apache Kafka cannot run here; the message says what is missing, in whole sentences."""
