"""`muster kafka produce`: records from the shell, straight to the broker."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from itertools import islice
from typing import Annotated, Any

import typer
from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    UnknownTopicOrPartitionError,
)

from actors.kafka.client import make_producer
from cli.kafka.broker import find_broker
from cli.kafka.message import ProduceOptions, ProducerMessage
from cli.shell.context import DATA_DIR, DataDir, JsonFlag, command, out, print_json
from cli.shell.errors import CommandError, InputError
from cli.shell.progress import progress
from core.kafka.topic_routing import TOPIC_NAME
from core.shared.kafka_config import KafkaConfig

# So many are on their way before any is waited for.
WINDOW = 1_000
# Brokers have bounds of their own; ours must not hide what they say.
MAX_BYTES = 64 * 1024 * 1024
CONNECT_WITHIN = 30.0

# By partition: the offsets of the first and the last record.
OffsetRanges = dict[int, tuple[int, int]]


@command
async def produce(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    options: ProduceOptions,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Broker; MUSTER_KAFKA_BOOTSTRAP or the local instance's."
        ),
    ] = None,
    data_dir: DataDir = DATA_DIR,
    as_json: JsonFlag = False,
) -> None:
    """Send records to a topic and say where they are.

    Speaks to the broker itself, as MUSTER_KAFKA_* says; no key of Muster is needed. With --count,
    {n} in data, key and headers becomes 1, 2, 3 and so on.
    """
    if not TOPIC_NAME.fullmatch(topic):
        raise InputError(f"'{topic}' is no topic: letters, digits, dots, dashes and underscores.")
    message, config = options.message(), find_broker(bootstrap, data_dir)
    started, count = time.monotonic(), options.count
    with _translate_errors(config, topic):
        async with _producer(config) as producer:
            with progress("producing", count, shown=not as_json and count > 1) as show:
                spans = await send_all(
                    producer, topic, message.copies(count), lambda done: show(done, count)
                )
    seconds = time.monotonic() - started
    if as_json:
        print_json(sent_document(topic, spans, count, seconds))
    else:
        out.print(sent_sentence(topic, spans, count, seconds), markup=False, soft_wrap=True)


async def send_all(
    producer: AIOKafkaProducer,
    topic: str,
    messages: Iterable[ProducerMessage],
    tell: Callable[[int], None],
) -> OffsetRanges:
    """Send them in order; where they are. Each window is confirmed before the next begins."""
    spans: OffsetRanges = {}
    upcoming, done = iter(messages), 0
    while window := list(islice(upcoming, WINDOW)):
        futures = [
            await producer.send(topic, one.value, key=one.key, headers=list(one.headers))
            for one in window
        ]
        for place in await asyncio.gather(*futures):
            first = spans.get(place.partition, (place.offset, 0))[0]
            spans[place.partition] = (first, place.offset)
        done += len(window)
        tell(done)
    return spans


def sent_sentence(topic: str, spans: OffsetRanges, count: int, seconds: float) -> str:
    """Where the records are."""
    if count == 1:
        ((partition, (offset, _)),) = spans.items()
        return f"Sent to {topic}, partition {partition}, offset {offset}."
    speed = f"{seconds:.1f} s, {count / max(seconds, 0.001):,.0f} a second"
    places = ", ".join(
        f"{partition}: {first} to {last}" for partition, (first, last) in sorted(spans.items())
    )
    return f"Sent {count:,} records to {topic} ({speed}); offsets by partition {places}."


def sent_document(topic: str, spans: OffsetRanges, count: int, seconds: float) -> Mapping[str, Any]:
    """The same for scripts."""
    return {
        "topic": topic,
        "sent": count,
        "seconds": round(seconds, 3),
        "partitions": [
            {"partition": partition, "first": first, "last": last}
            for partition, (first, last) in sorted(spans.items())
        ],
    }


@asynccontextmanager
async def _producer(config: KafkaConfig) -> AsyncIterator[AIOKafkaProducer]:
    # What goes wrong is told once, in a sentence.
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    producer = make_producer(config, MAX_BYTES)
    try:
        async with asyncio.timeout(CONNECT_WITHIN):
            await producer.start()
        yield producer
    finally:
        await producer.stop()


@contextmanager
def _translate_errors(config: KafkaConfig, topic: str) -> Iterator[None]:
    try:
        yield
    except (KafkaConnectionError, TimeoutError, OSError) as error:
        raise CommandError(f"No broker can be used at {config.bootstrap}: {error}.") from error
    except UnknownTopicOrPartitionError as error:
        raise CommandError(f"The cluster has no topic {topic} and makes none.") from error
    except MessageSizeTooLargeError as error:
        raise CommandError("The broker does not take a record of this size.") from error
    except KafkaError as error:
        raise CommandError(f"Kafka refused: {error}.") from error
