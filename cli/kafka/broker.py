"""The broker that a command connects to, and with which credentials."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    UnknownTopicOrPartitionError,
)

from cli.shell.errors import CommandError
from core.shared.kafka_config import KafkaConfig
from host.instance import read_instance
from host.paths import instance_paths
from settings.settings import Settings

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Broker; MUSTER_KAFKA_BOOTSTRAP or the local instance's."
    ),
]


def find_broker(bootstrap: str | None, data_dir: Path) -> KafkaConfig:
    """Find the broker that was given, then that of MUSTER_KAFKA_*, then the local instance's."""
    settings = Settings.load({"kafka_bootstrap": bootstrap})
    if settings.kafka_bootstrap is None:
        settings = _with_local(settings, data_dir)
    config = settings.to_config("").kafka
    if config is None:
        raise CommandError(
            "No Kafka broker was found: give --bootstrap or MUSTER_KAFKA_BOOTSTRAP, or name with "
            f"--data-dir the folder of an instance that runs with Kafka (not {data_dir})."
        )
    return config


def _with_local(settings: Settings, data_dir: Path) -> Settings:
    instance = read_instance(instance_paths(data_dir))
    link = instance.kafka if instance is not None else None
    if link is None:
        return settings
    if link.broker is not None:  # the embedded broker has no authentication
        return settings.with_plain_kafka(link.bootstrap)
    return Settings.load({"kafka_bootstrap": link.bootstrap})


@contextmanager
def translate_errors(config: KafkaConfig, topic: str = "") -> Iterator[None]:
    """Turn the errors of a Kafka client into one sentence."""
    try:
        yield
    except (KafkaConnectionError, TimeoutError, OSError) as error:
        raise CommandError(
            f"The broker at {config.bootstrap} cannot be reached: {error}."
        ) from error
    except UnknownTopicOrPartitionError as error:
        raise CommandError(
            f"Topic {topic} does not exist, and the cluster creates no topics by itself."
        ) from error
    except MessageSizeTooLargeError as error:
        raise CommandError("The message is larger than the broker accepts.") from error
    except KafkaError as error:
        raise CommandError(f"Kafka refused the request: {error}.") from error
