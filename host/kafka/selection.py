"""Which Kafka `muster up` uses: an embedded one, the configured one, or none."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from host.errors import MissingPartError
from host.instance import KafkaLink
from host.kafka import apache, mock
from host.kafka.apache import ApacheOptions
from host.kafka.broker import Broker, stop_kafka
from host.kafka.jars import Jars, Say, cache_folder, fetch_jars, find_jars
from host.kafka.java import Java, find_java
from host.paths import InstancePaths
from settings.settings import Settings

EMBEDDED = "embedded"
OFF = "off"


@dataclass(frozen=True, slots=True)
class Runtime:
    java: Java
    jars: Jars


def find_runtime(jars_folder: Path | None, fetch: Callable[[Path], Jars] | None = None) -> Runtime:
    """Find Java and the jars on this machine; `fetch` may download missing jars.

    Raises:
        MissingPartError: Apache Kafka cannot run here; it says what is missing.
    """
    java = find_java(os.environ)
    folder = (jars_folder or cache_folder(os.environ)).expanduser()
    return Runtime(java, find_jars(folder) or (fetch or _refuse)(folder))


def start_embedded(
    folder: Path, options: ApacheOptions, *, jars_folder: Path | None, say: Say
) -> Broker:
    """Start the best broker that this machine can run, and wait until it answers."""
    try:
        runtime = find_runtime(jars_folder, partial(fetch_jars, say=say))
    except MissingPartError as missing:
        return mock.start(folder, reason=str(missing))
    return apache.start(folder, options, runtime.java, runtime.jars)


def _refuse(folder: Path) -> Jars:
    raise MissingPartError(f"the jars of Apache Kafka are not in {folder}.")


def load_settings(flags: Mapping[str, object], kafka: str | None) -> Settings:
    """Load all settings; `--kafka` takes precedence over MUSTER_KAFKA_BOOTSTRAP."""
    if kafka not in {None, EMBEDDED, OFF}:
        return Settings.load({**flags, "kafka_bootstrap": kafka})
    settings = Settings.load(flags)
    return settings.with_plain_kafka(None) if kafka is not None else settings


def prefetch_jars(settings: Settings, say: Say) -> None:
    """Download missing jars in the foreground: a background host could show no progress."""
    try:
        find_runtime(settings.kafka_jars, partial(fetch_jars, say=say))
    except MissingPartError:
        return  # the host says so when it starts the mock instead


@contextmanager
def kafka_up(
    settings: Settings, places: InstancePaths, kafka: str | None, say: Say
) -> Iterator[tuple[Settings, KafkaLink | None]]:
    """Yield the settings with the broker to use; an embedded broker runs while the block does."""
    if kafka != EMBEDDED:
        bootstrap = settings.kafka_bootstrap
        yield settings, KafkaLink(bootstrap=bootstrap) if bootstrap else None
        return
    started = time.monotonic()
    try:
        broker = start_embedded(
            places.kafka, ApacheOptions(), jars_folder=settings.kafka_jars, say=say
        )
        say(f"Kafka is up ({time.monotonic() - started:.1f} s): {broker.describe()}")
        link = KafkaLink(bootstrap=broker.bootstrap, broker=broker.describe())
        yield settings.with_plain_kafka(broker.bootstrap), link
    finally:
        if stop_kafka(places):
            say("Kafka is down")
