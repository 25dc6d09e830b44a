"""`muster kafka produce`: messages sent directly to the broker."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer

from actors.kafka.client import make_producer
from cli.kafka.broker import BootstrapOption, find_broker, translate_errors
from cli.shell.bulk import progress
from cli.shell.context import DATA_DIR, DataDir, JsonFlag, print_result, single_command
from cli.shell.errors import InputError
from cli.shell.json_input import read_json_text
from cli.shell.options import argument, option
from cli.shell.parsing import parse_pairs
from core.kafka.topic_routing import TOPIC_NAME
from core.shared.kafka_config import KafkaConfig

# So many messages are under way before the first is confirmed.
WINDOW = 1_000
# Brokers have a smaller limit, and their refusal is to be shown.
MAX_BYTES = 64 * 1024 * 1024
CONNECT_WITHIN = 30.0

NUMBER_PLACEHOLDER = b"{n}"
# By partition: the offsets of the first and the last message.
OffsetRanges = dict[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ProducerMessage:
    """A message to send."""

    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    def copies(self, count: int) -> Iterator["ProducerMessage"]:
        """Yield the message `count` times; of several, each has its number in the place of {n}."""
        if count == 1:
            yield self
            return
        for number in range(1, count + 1):
            text = str(number).encode()
            yield ProducerMessage(
                self.value.replace(NUMBER_PLACEHOLDER, text),
                self.key.replace(NUMBER_PLACEHOLDER, text) if self.key is not None else None,
                tuple(
                    (name, value.replace(NUMBER_PLACEHOLDER, text)) for name, value in self.headers
                ),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceOptions:
    """The message to send, as it was typed."""

    data: str | None = option("Value: JSON, @file, or - for standard input.", "--data", "-d")
    file: Path | None = option("Value: the bytes of this file, unchanged.")
    key: str | None = option("Key; messages with the same key keep their order.")
    header: list[str] | None = option("A header; repeatable.", metavar="NAME=VALUE")
    count: int = option(
        "How many messages; {n} becomes the number of each.", default=1, min=1, max=10_000_000
    )

    def message(self) -> ProducerMessage:
        key = None if self.key is None else self.key.encode()
        return ProducerMessage(self._value(), key, self._headers())

    def _value(self) -> bytes:
        if self.file is None:
            return read_json_text("{}" if self.data is None else self.data).encode()
        if self.data is not None:
            raise InputError("Give --data or --file, not both.")
        try:
            return self.file.read_bytes()
        except OSError as error:
            raise InputError(f"Cannot read {self.file}: {error.strerror}.") from error

    def _headers(self) -> tuple[tuple[str, bytes], ...]:
        pairs = parse_pairs(self.header or (), "header")
        return tuple((name, value.encode()) for name, value in pairs)


@single_command("""muster kafka produce payments -d '{"order": "17"}' --key 17""")
async def produce(
    options: ProduceOptions,
    topic: str = argument("The topic."),
    bootstrap: BootstrapOption = None,
    data_dir: DataDir = DATA_DIR,
    as_json: JsonFlag = False,
) -> None:
    """Send messages to a topic and print their offsets.

    Connects to the broker itself with the settings MUSTER_KAFKA_*; no API key is needed. With
    --count, {n} in data, key and headers becomes 1, 2, 3 and so on.
    """
    if not TOPIC_NAME.fullmatch(topic):
        raise InputError(
            f"'{topic}' is not a topic: use letters, digits, dots, dashes and underscores."
        )
    message, config = options.message(), find_broker(bootstrap, data_dir)
    started, count = time.monotonic(), options.count
    with translate_errors(config, topic):
        async with _producer(config) as producer:
            with progress("producing", count, shown=not as_json and count > 1) as show:
                spans = await send_all(
                    producer, topic, message.copies(count), lambda done: show(done, count)
                )
    seconds = time.monotonic() - started
    document = sent_document(topic, spans, count, seconds)
    print_result(document, sent_sentence(topic, spans, count, seconds), as_json=as_json)


async def send_all(
    producer: AIOKafkaProducer,
    topic: str,
    messages: Iterable[ProducerMessage],
    tell: Callable[[int], None],
) -> OffsetRanges:
    """Send messages in order, window by window, and return their offsets."""
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
    if count == 1:
        ((partition, (offset, _)),) = spans.items()
        return f"Sent to {topic}, partition {partition}, offset {offset}."
    speed = f"{seconds:.1f} s, {count / max(seconds, 0.001):,.0f} a second"
    places = ", ".join(
        f"{partition}: {first} to {last}" for partition, (first, last) in sorted(spans.items())
    )
    return f"Sent {count:,} messages to {topic} ({speed}); offsets by partition {places}."


def sent_document(topic: str, spans: OffsetRanges, count: int, seconds: float) -> Mapping[str, Any]:
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
    # Errors are printed once, as one sentence.
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    producer = make_producer(config, MAX_BYTES)
    try:
        async with asyncio.timeout(CONNECT_WITHIN):
            await producer.start()
        yield producer
    finally:
        await producer.stop()
