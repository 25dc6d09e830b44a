"""Which Kafka `muster up` works with: one of its own, the one it is given, or none."""

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
    """Every setting, with `--kafka` going before MUSTER_KAFKA_BOOTSTRAP."""
    if kafka not in {None, EMBEDDED, OFF}:
        return Settings.load({**flags, "kafka_bootstrap": kafka})
    settings = Settings.load(flags)
    return settings.with_plain_kafka(None) if kafka is not None else settings


def prefetch_jars(settings: Settings, say: Say) -> None:
    """Fetch what is missing while somebody looks; a host in the background has nobody to tell."""
    try:
        embedded.find_runtime(settings.kafka_jars, partial(fetch_jars, say=say))
    except MissingPartError:
        return  # the host says so when it starts the mock instead


@contextmanager
def kafka_up(
    settings: Settings, places: InstancePaths, kafka: str | None, say: Say
) -> Iterator[tuple[Settings, KafkaLink | None]]:
    """The settings with the broker to use, which runs for as long as the block if it is ours."""
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
    """Stop the embedded broker of an instance; whether there was one."""
    broker = running_broker(places.kafka)
    if broker is not None:
        stop(broker)
    return broker is not None


def kill_kafka(places: InstancePaths) -> None:
    """End the embedded broker without asking."""
    broker = running_broker(places.kafka)
    if broker is not None:
        kill(broker)
