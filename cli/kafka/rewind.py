"""`muster kafka rewind`: read messages again, after the database was restored."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import CommitFailedError

from actors.kafka.client import client_options
from cli.kafka.broker import BootstrapOption, find_broker, translate_errors
from cli.shell import formats as fmt
from cli.shell.context import DATA_DIR, DataDir, JsonFlag, out, print_json, single_command
from cli.shell.errors import CommandError
from cli.shell.options import option
from cli.shell.output import columns, table
from cli.shell.parsing import parse_time
from core.shared.kafka_config import KafkaConfig

CONNECT_WITHIN = 60.0
# Longer than the session of a consumer that was killed.
LEAVE_WITHIN = 15.0
# The states of a group without members.
_EMPTY = {"Empty", "Dead"}
MOVES = columns(
    "topic",
    ("partition", "partition", fmt.RightAligned(fmt.text)),
    ("old", "old", fmt.number),
    ("new", "new", fmt.number),
    ("read again", "records", fmt.number),
)


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """The committed offset of a partition, and the offset to begin again."""

    topic: str
    partition: int
    old: int
    new: int

    @property
    def records(self) -> int:
        """Return how many messages are read again; scripts know the number by this name."""
        return self.old - self.new


def plan_moves(
    committed: Mapping[TopicPartition, int], found: Mapping[TopicPartition, int | None]
) -> list[OffsetMove]:
    """Decide where each partition begins again, never after its committed offset.

    Args:
        committed: The committed offsets of the group.
        found: The first message at or after the time, None where there is none.
    """
    moves = []
    for place, old in sorted(committed.items()):
        first = found.get(place)
        new = old if first is None else min(old, first)
        moves.append(OffsetMove(place.topic, place.partition, old, new))
    return moves


@single_command("muster kafka rewind --to 2h")
async def rewind(
    to: str = option(
        "Read messages again since: 2026-07-27T10:00:00Z, or 2h for two hours ago.",
        required=True,
        metavar="TIME",
    ),
    topic: list[str] | None = option("Only this topic; repeatable."),
    yes: bool = option(
        "Change the offsets; without it they are only shown.", "--yes", default=False
    ),
    bootstrap: BootstrapOption = None,
    data_dir: DataDir = DATA_DIR,
    as_json: JsonFlag = False,
) -> None:
    """Set the offsets of Muster's consumer group back to a time.

    Use it after the database was restored: the committed offsets are newer than the backup, so the
    messages in between would be skipped. Give a time shortly before the backup. Messages that are
    stored already are recognised by topic, partition and offset, and change nothing. Stop Muster
    first: a running consumer would overwrite the offsets.
    """
    config = find_broker(bootstrap, data_dir)
    since = datetime.fromisoformat(parse_time(to, datetime.now(UTC)).replace("Z", "+00:00"))
    with translate_errors(config):
        async with asyncio.timeout(CONNECT_WITHIN):
            moves = await _rewind(config, since, topic, is_real=yes)
    document: dict[str, Any] = {
        "group": config.group,
        "to": since.isoformat(),
        "changed": yes,
        "partitions": [asdict(move) | {"records": move.records} for move in moves],
    }
    if as_json:
        print_json(document)
        return
    out.print(table(MOVES, document["partitions"]))
    total = sum(move.records for move in moves)
    when = since.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if yes:
        sentence = f"{config.group} reads {total:,} messages again, from {when} on."
    else:
        sentence = (
            f"{config.group} would read {total:,} messages again, from {when} on. Nothing was "
            "changed: add --yes."
        )
    out.print(sentence, soft_wrap=True)


async def _rewind(
    config: KafkaConfig, since: datetime, topics: list[str] | None, *, is_real: bool
) -> list[OffsetMove]:
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    committed = await _committed(config, topics, must_be_empty=is_real)
    consumer = AIOKafkaConsumer(
        **client_options(config), group_id=config.group, enable_auto_commit=False
    )
    try:
        await consumer.start()
        consumer.assign(list(committed))
        millis = int(since.timestamp() * 1000)
        times = await consumer.offsets_for_times(dict.fromkeys(committed, millis))
        found = {place: hit.offset if hit else None for place, hit in times.items()}
        moves = plan_moves(committed, found)
        changed = {TopicPartition(m.topic, m.partition): m.new for m in moves if m.records}
        if is_real and changed:
            await consumer.commit(changed)
    except CommitFailedError as error:
        raise CommandError(_in_use(config.group)) from error
    finally:
        await consumer.stop()
    return moves


async def _committed(
    config: KafkaConfig, topics: list[str] | None, *, must_be_empty: bool
) -> dict[TopicPartition, int]:
    admin = AIOKafkaAdminClient(**client_options(config))
    try:
        await admin.start()
        if must_be_empty:
            await _until_empty(admin, config.group)
        offsets = await admin.list_consumer_group_offsets(config.group)
    finally:
        await admin.close()
    known = {place: meta.offset for place, meta in offsets.items() if meta.offset >= 0}
    for topic in topics or ():
        if all(place.topic != topic for place in known):
            raise CommandError(
                f"Consumer group {config.group} has read nothing from topic {topic}."
            )
    if not known:
        raise CommandError(f"Consumer group {config.group} has read nothing yet.")
    return {place: at for place, at in known.items() if not topics or place.topic in topics}


async def _until_empty(admin: AIOKafkaAdminClient, group: str) -> None:
    """Wait until Kafka has noticed that Muster is down, as a killed consumer takes no leave."""
    waits_until = time.monotonic() + LEAVE_WITHIN
    while not _is_empty(await admin.describe_consumer_groups([group])):
        if time.monotonic() > waits_until:
            raise CommandError(_in_use(group))
        await asyncio.sleep(1.0)


def _is_empty(described: Iterable[Any]) -> bool:
    return all(group[2] in _EMPTY for reply in described for group in reply.groups)


def _in_use(group: str) -> str:
    return (
        f"Consumer group {group} is active: stop Muster first (`muster down`, or on a cluster "
        "`serve shutdown` and the supervisor), and try again."
    )
