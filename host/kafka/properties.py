"""The configuration files of Apache Kafka."""

from collections.abc import Mapping
from pathlib import Path

from host.ports import LOOPBACK

# One node that is broker and controller, on loopback. Few threads and small buffers, because it
# shares the machine with what is being tried out.
FIXED: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "num.partitions": "4",
    # There is nobody to replicate to.
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    # After a kill it may come back only when its old session has run out: 9 s by default.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    # A group forms at once, and may notice a dead member within a second if it asks for that.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
}


def server_properties(
    data: Path,
    *,
    port: int,
    controller_port: int,
    auto_create_topics: bool,
    extra: Mapping[str, str],
) -> str:
    """Return the content of server.properties; `extra` overrides everything."""
    settings = {
        **FIXED,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "log.dirs": str(data),
        "auto.create.topics.enable": str(auto_create_topics).lower(),
        **extra,
    }
    return "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items())


LOG4J = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


def _escaped(value: str) -> str:
    plain = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    plain = plain.replace(" ", "\\ ", 1) if plain.startswith(" ") else plain
    return "".join(_java(letter) for letter in plain)


def _java(letter: str) -> str:
    if letter.isascii():
        return letter
    units = letter.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
