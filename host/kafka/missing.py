from host.errors import HostError


class MissingPartError(HostError):
    """Apache Kafka cannot run here; the message says what it lacks, in whole sentences."""
