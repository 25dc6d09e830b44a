"""Which broker a command speaks to, and how it shows itself there."""

from pathlib import Path

from cli.shell.errors import CommandError
from core.shared.errors import InvalidError
from core.shared.kafka_config import KafkaConfig
from host.errors import HostError
from host.instance import KafkaLink, read_instance
from host.paths import instance_paths
from settings.settings import Settings


def find_broker(bootstrap: str | None, data_dir: Path) -> KafkaConfig:
    """What was given, then MUSTER_KAFKA_*, then what a local instance works with."""
    try:
        settings = Settings.load({"kafka_bootstrap": bootstrap})
        if settings.kafka_bootstrap is None:
            settings = _with_local(settings, data_dir)
    except (InvalidError, HostError) as error:
        raise CommandError(f"{str(error).rstrip('.')}.") from error
    config = settings.to_config("").kafka
    if config is None:
        raise CommandError(
            "No broker is known: give --bootstrap or MUSTER_KAFKA_BOOTSTRAP, or start Muster with "
            "`muster up --kafka embedded`."
        )
    return config


def _with_local(settings: Settings, data_dir: Path) -> Settings:
    link = _link(data_dir)
    if link is None:
        return settings
    if link.broker is not None:  # one of our own, which asks nobody who they are
        return settings.with_plain_kafka(link.bootstrap)
    return Settings.load({"kafka_bootstrap": link.bootstrap})


def _link(data_dir: Path) -> KafkaLink | None:
    instance = read_instance(instance_paths(data_dir))
    return instance.kafka if instance is not None else None
