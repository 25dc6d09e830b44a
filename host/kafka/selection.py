"""Which Kafka `muster up` uses: an embedded one, the configured one, or none."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from host.instance import KafkaLink
from host.kafka import embedded
from host.kafka.apache import ApacheOptions
from host.kafka.broker import kill, running_broker, stop
from host.kafka.jars import fetch_jars
from host.kafka.missing import MissingPartError
from host.paths import InstancePaths
from settings.settings import Settings

Say = Callable[[str], None]
EMBEDDED = "embedded"
OFF = "off"


def load_settings(flags: Mapping[str, object], kafka: str | None) -> Settings:
    """Load all settings; `--kafka` takes precedence over MUSTER_KAFKA_BOOTSTRAP."""
    if kafka not in {None, EMBEDDED, OFF}:
        return Settings.load({**flags, "kafka_bootstrap": kafka})
    settings = Settings.load(flags)
    return settings.with_plain_kafka(None) if kafka is not None else settings


def prefetch_jars(settings: Settings, say: Say) -> None:
    """Download missing jars in the foreground: a background host could show no progress."""
    try:
        embedded.find_runtime(settings.kafka_jars, partial(fetch_jars, say=say))
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
        broker = embedded.start(
            places.kafka, ApacheOptions(), jars_folder=settings.kafka_jars, say=say
        )
        say(f"Kafka is up ({time.monotonic() - started:.1f} s): {broker.describe()}")
        link = KafkaLink(bootstrap=broker.bootstrap, broker=broker.describe())
        yield settings.with_plain_kafka(broker.bootstrap), link
    finally:
        if stop_kafka(places):
            say("Kafka is down")


def stop_kafka(places: InstancePaths) -> bool:
    """Stop the embedded broker of an instance; return False if there was none."""
    broker = running_broker(places.kafka)
    if broker is not None:
        stop(broker)
    return broker is not None


def kill_kafka(places: InstancePaths) -> None:
    """Kill the embedded broker of an instance."""
    broker = running_broker(places.kafka)
    if broker is not None:
        kill(broker)
