"""A real Apache Kafka on one folder: formatted once, started, and awaited until it answers."""

import base64
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from host.detach import spawn
from host.errors import HostError
from host.kafka.broker import (
    Broker,
    BrokerKind,
    await_ready,
    identify_child,
    is_answering,
    running_broker,
    stop,
    write_broker_file,
)
from host.kafka.jars import Jars
from host.kafka.java import Java
from host.kafka.properties import LOG4J, server_properties
from host.ports import LOOPBACK, all_free, free_port, stable_port

PORTS = range(12_000, 20_000)  # below the ports that the system gives to clients
START_WITHIN = 120.0
FORMAT_WITHIN = 120.0
_TRIES = 3
_ENVIRONMENT = ("PATH", "HOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ")
_EXCEPTION = re.compile(
    r"^(?:Caused by: )?[\w.$]+(?:Exception|Error): (?P<message>.+)", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApacheOptions:
    """The options of a broker.

    The first client that names a topic creates it, unless `auto_create_topics` is off: convenient
    for trials, but in a test it would hide a misspelt name.
    """

    port: int | None = None  # None: derived from the folder
    auto_create_topics: bool = True
    heap: str = "384m"
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _BrokerFolder:
    folder: Path
    java: Java
    jars: Jars
    options: ApacheOptions

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def log(self) -> Path:
        return self.folder / "kafka.log"

    def command(self, main: str, *arguments: str) -> list[str]:
        """Return a Java command that starts fast and in little memory."""
        return [
            str(self.java.program),
            f"-Xmx{self.options.heap}",
            "-Xms64m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:-UsePerfData",  # else Java leaves a file in the shared temporary folder
            f"-XX:ErrorFile={self.folder / 'java-crash.log'}",
            f"-Djava.io.tmpdir={self.folder / 'tmp'}",
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            "-cp",
            str(self.jars.folder / "*"),
            main,
            *arguments,
        ]


class _PortTakenError(HostError):
    """Another process bound the port after it was chosen."""


def start(folder: Path, options: ApacheOptions, java: Java, jars: Jars) -> Broker:
    """Start the broker on `folder`, with the data of earlier runs, and wait until it answers."""
    site = _BrokerFolder(folder.expanduser().resolve(), java, jars, options)
    if (left := running_broker(site.folder)) is not None:
        stop(left)
    if options.port is not None and not all_free([options.port]):
        raise HostError(f"Port {options.port} on {LOOPBACK} is taken.")
    try:
        _make_folders(site)
        for _ in range(_TRIES - 1):
            try:
                return _start(site)
            except _PortTakenError:
                continue
        return _start(site)
    except OSError as error:
        raise HostError(f"Apache Kafka cannot use {site.folder}: {error.strerror}.") from error


def _start(site: _BrokerFolder) -> Broker:
    port = site.options.port or stable_port(site.folder, PORTS)
    _write_properties(site, site.data, port)
    if not (site.data / "meta.properties").exists():
        _format(site, port)
    if site.log.exists():
        site.log.replace(site.log.with_suffix(".log.1"))
    pid = spawn(site.command("kafka.Kafka", str(site.properties)), site.log, _environment())
    broker = Broker(
        kind=BrokerKind.APACHE,
        name=f"Apache Kafka {site.jars.version}",
        bootstrap=f"{LOOPBACK}:{port}",
        process=identify_child(pid),
        folder=site.folder,
    )
    write_broker_file(broker)
    try:
        await_ready(broker, lambda: is_answering(broker.bootstrap), within=START_WITHIN)
    except HostError as error:
        said = site.log.read_text(errors="replace")
        kind = _PortTakenError if "Address already in use" in said else HostError
        raise kind(f"{error} {failure_reason(said)} (log: {site.log})") from None
    return broker


def failure_reason(log: str) -> str:
    """Return the first exception in the output of a Java program, else the last line."""
    if (exception := _EXCEPTION.search(log)) is not None:
        return exception["message"].strip()
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return lines[-1] if lines else "It gave no reason."


def _make_folders(site: _BrokerFolder) -> None:
    site.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.rmtree(site.folder / "tmp", ignore_errors=True)  # left by a killed broker
    (site.folder / "tmp").mkdir(mode=0o700)
    (site.folder / "log4j2.properties").write_text(LOG4J)


def _write_properties(site: _BrokerFolder, data: Path, port: int) -> None:
    text = server_properties(
        data,
        port=port,
        controller_port=free_port(),
        auto_create_topics=site.options.auto_create_topics,
        extra=site.options.extra,
    )
    site.properties.write_text(text, encoding="ascii")


def _format(site: _BrokerFolder, port: int) -> None:
    """Build the data folder under another name and rename it last: never half made."""
    fresh = site.folder / "data.new"
    shutil.rmtree(fresh, ignore_errors=True)
    _write_properties(site, fresh, port)
    # With "=": one id in 64 begins with a dash and would be taken for an option.
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    arguments = ["format", f"--cluster-id={cluster_id}", f"--config={site.properties}"]
    try:
        done = subprocess.run(
            site.command("kafka.tools.StorageTool", *arguments),
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=FORMAT_WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HostError(f"Apache Kafka did not format {site.data} in time.") from None
    if done.returncode != 0:
        reason = failure_reason(done.stderr + done.stdout)
        raise HostError(f"Apache Kafka could not format {site.data}: {reason}")
    fresh.rename(site.data)
    _write_properties(site, site.data, port)


def _environment() -> dict[str, str]:
    """Return only what Java needs: no options that change its behaviour, no secrets."""
    return {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
