"""Chooses the embedded broker: Apache Kafka if it can run here, else the mock."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from host.kafka import apache, mock
from host.kafka.apache import ApacheOptions
from host.kafka.broker import Broker
from host.kafka.jars import Jars, Say, cache_folder, fetch_jars, find_jars
from host.kafka.java import Java, find_java
from host.kafka.missing import MissingPartError


@dataclass(frozen=True, slots=True)
class Runtime:
    """What Apache Kafka runs on."""

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


def start(folder: Path, options: ApacheOptions, *, jars_folder: Path | None, say: Say) -> Broker:
    """Start the best broker that this machine can run, and wait until it answers."""
    try:
        runtime = find_runtime(jars_folder, partial(fetch_jars, say=say))
    except MissingPartError as missing:
        return mock.start(folder, reason=str(missing))
    return apache.start(folder, options, runtime.java, runtime.jars)


def _refuse(folder: Path) -> Jars:
    raise MissingPartError(f"the jars of Apache Kafka are not in {folder}.")
