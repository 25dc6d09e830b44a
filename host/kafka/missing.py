from host.errors import HostError


class MissingPartError(HostError):
    """Apache Kafka cannot run here; the message says what is missing, in whole sentences."""
