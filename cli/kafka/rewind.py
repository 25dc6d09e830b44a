"""`muster kafka rewind`: have records read again, after the database was restored."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import CommitFailedError, KafkaConnectionError, KafkaError

from actors.kafka.client import client_options
from cli.dispatch.parsing import parse_time
from cli.kafka.broker import find_broker
from cli.shell.context import DATA_DIR, DataDir, JsonFlag, command, out, print_json
from cli.shell.errors import CommandError
from cli.shell.tables import format_count, plain_table
from core.shared.kafka_config import KafkaConfig

CONNECT_WITHIN = 60.0
# Longer than the session of a consumer that was killed.
LEAVE_WITHIN = 15.0
# What Kafka says of a group that nobody is in.
_EMPTY = {"Empty", "Dead"}


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """Where a group stands in a partition, and where it is to begin again."""

    topic: str
    partition: int
    old: int
    new: int

    @property
    def records(self) -> int:
        """How many are read again."""
        return self.old - self.new


def plan_moves(
    committed: Mapping[TopicPartition, int], found: Mapping[TopicPartition, int | None]
) -> list[OffsetMove]:
    """Decide where each partition begins again; never further on than it stands.

    Args:
        committed: How far the group is.
        found: The first record at or after the time, None where there is none.
    """
    moves = []
    for place, old in sorted(committed.items()):
        first = found.get(place)
        new = old if first is None else min(old, first)
        moves.append(OffsetMove(place.topic, place.partition, old, new))
    return moves


@command
async def rewind(
    to: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Read again what came since: 2026-07-27T10:00:00Z, or 2h for two hours ago.",
        ),
    ],
    topic: Annotated[
        list[str] | None, typer.Option(help="Only this topic; can be given several times.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; else only say what it would.")] = False,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Broker; MUSTER_KAFKA_BOOTSTRAP or the local instance's."
        ),
    ] = None,
    data_dir: DataDir = DATA_DIR,
    as_json: JsonFlag = False,
) -> None:
    """Set the offsets of Muster's consumer group back to a time.

    For a database that was restored: Kafka believes that everything up to now is stored, and would
    skip what came after the backup. Give a time a little before it. What is stored already is
    recognised by its place in its topic and changes nothing. Stop Muster first: a group that reads
    commits over what is set here.
    """
    config = find_broker(bootstrap, data_dir)
    since = datetime.fromisoformat(parse_time(to, datetime.now(UTC)).replace("Z", "+00:00"))
    try:
        async with asyncio.timeout(CONNECT_WITHIN):
            moves = await _rewind(config, since, topic, is_real=yes)
    except (KafkaConnectionError, TimeoutError, OSError) as error:
        raise CommandError(f"No broker can be used at {config.bootstrap}: {error}.") from error
    except KafkaError as error:
        raise CommandError(f"Kafka refused: {error}.") from error
    if as_json:
        print_json(_document(config.group, since, moves, is_real=yes))
    else:
        _show(config.group, since, moves, is_real=yes)


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
            raise CommandError(f"The group {config.group} has read nothing of the topic {topic}.")
    if not known:
        raise CommandError(f"The group {config.group} has read nothing yet.")
    return {place: at for place, at in known.items() if not topics or place.topic in topics}


async def _until_empty(admin: AIOKafkaAdminClient, group: str) -> None:
    """Wait until Kafka has noticed that Muster is down; one that was killed took no leave."""
    waits_until = time.monotonic() + LEAVE_WITHIN
    while not _is_empty(await admin.describe_consumer_groups([group])):
        if time.monotonic() > waits_until:
            raise CommandError(_in_use(group))
        await asyncio.sleep(1.0)


def _is_empty(described: Iterable[Any]) -> bool:
    return all(group[2] in _EMPTY for reply in described for group in reply.groups)


def _in_use(group: str) -> str:
    return (
        f"The group {group} is being read: stop Muster first (`muster down`, or on a cluster "
        "`serve shutdown` and the supervisor), and try again."
    )


def _document(
    group: str, since: datetime, moves: list[OffsetMove], *, is_real: bool
) -> dict[str, Any]:
    return {
        "group": group,
        "to": since.isoformat(),
        "changed": is_real,
        "partitions": [
            {
                "topic": move.topic,
                "partition": move.partition,
                "old": move.old,
                "new": move.new,
                "records": move.records,
            }
            for move in moves
        ],
    }


def _show(group: str, since: datetime, moves: list[OffsetMove], *, is_real: bool) -> None:
    table = plain_table("topic", "partition", "old", "new", "read again", right=(1, 2, 3, 4))
    for move in moves:
        row = (format_count(move.old), format_count(move.new), format_count(move.records))
        table.add_row(move.topic, str(move.partition), *row)
    out.print(table)
    total = sum(move.records for move in moves)
    when = since.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if is_real:
        out.print(f"{group} reads {total:,} records again, from {when} on.", soft_wrap=True)
    else:
        out.print(
            f"{group} would read {total:,} records again, from {when} on. Nothing was changed: "
            "add --yes.",
            soft_wrap=True,
        )
