"""The embedded brokers: they answer, keep what they promise to keep, and leave nothing behind."""

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from host.errors import HostError
from host.kafka import apache, mock
from host.kafka.apache import ApacheOptions
from host.kafka.broker import Broker, BrokerKind, is_answering, running_broker, stop
from host.kafka.selection import Runtime
from host.ports import stable_port
from host.processes import find_process
from tests.support.kafka import Kafka, MessageToProduce, OwnKafka, unique


async def test_a_message_comes_back_as_it_was_sent(kafka: Kafka) -> None:
    topic = await kafka.create_topic()
    sent = MessageToProduce(
        value=b'{"paid":true}', key=b"order-17", headers=[("ce_type", b"paid"), ("x", b"")]
    )
    ((partition, offset),) = await kafka.produce(topic, [sent])
    (record,) = await kafka.consume(topic, 1)
    assert (record.partition, record.offset) == (partition, offset) == (partition, 0)
    assert (record.value, record.key, record.headers) == (sent.value, sent.key, tuple(sent.headers))


async def test_many_messages_are_all_there_and_each_key_keeps_its_order(kafka: Kafka) -> None:
    topic = await kafka.create_topic()
    messages = [
        MessageToProduce(value=b"%d" % number, key=b"%d" % (number % 7)) for number in range(2_000)
    ]
    await kafka.produce(topic, messages)
    records = await kafka.consume(topic, len(messages))
    assert sum((await kafka.end_offsets(topic)).values()) == len(messages)
    assert sorted(int(record.value) for record in records) == list(range(2_000))
    for key in range(7):
        of_key = [int(record.value) for record in records if record.key == b"%d" % key]
        assert of_key == sorted(of_key)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_every_compression_can_be_read(kafka: Kafka, codec: str) -> None:
    topic = await kafka.create_topic(partitions=1)
    await kafka.produce(topic, [b"x" * 1_000] * 50, compression_type=codec)
    assert [record.value for record in await kafka.consume(topic, 50)] == [b"x" * 1_000] * 50


async def test_a_group_reads_on_where_it_committed(kafka: Kafka) -> None:
    topic, group = await kafka.create_topic(partitions=1), unique("group")
    await kafka.produce(
        topic,
        [MessageToProduce(value=b"1", partition=0), MessageToProduce(value=b"2", partition=0)],
    )
    first = await _next_of_group(kafka, topic, group)
    assert (first.value, (await kafka.committed(group))[topic, 0]) == (b"1", 1)
    assert (await _next_of_group(kafka, topic, group)).value == b"2"


async def test_no_topic_is_made_by_naming_it(kafka: Kafka) -> None:
    if not kafka.is_real:
        pytest.skip("the mock makes every topic that is named")
    misspelt = unique("misspelt")
    with pytest.raises(KafkaError):
        await kafka.produce(misspelt, [b"x"], request_timeout_ms=2_000)
    assert misspelt not in await kafka.topics()


async def test_it_listens_on_loopback_only(kafka: Kafka) -> None:
    connections = psutil.Process(kafka.broker.pid).net_connections("tcp")
    listening = [one.laddr for one in connections if one.status == psutil.CONN_LISTEN]
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    assert kafka.broker.port in {address.port for address in listening}


async def test_it_keeps_data_offsets_and_address_over_a_restart_and_a_kill(
    own_kafka: OwnKafka,
) -> None:
    topic, group = await own_kafka.create_topic(partitions=1), unique("group")
    address, first = own_kafka.bootstrap, own_kafka.broker.pid
    await own_kafka.produce(topic, [b"before the restart"])
    await _next_of_group(own_kafka, topic, group)

    await own_kafka.restart()
    assert own_kafka.bootstrap == address
    assert own_kafka.broker.pid != first
    await own_kafka.produce(topic, [b"before the kill"])

    await own_kafka.kill()
    assert not await own_kafka.answers()
    assert running_broker(own_kafka.broker.folder) is None
    await own_kafka.start()
    assert own_kafka.bootstrap == address
    values = [record.value for record in await own_kafka.consume(topic, 2)]
    assert values == [b"before the restart", b"before the kill"]
    assert await own_kafka.committed(group) == {(topic, 0): 1}


async def test_stopped_it_is_gone_and_the_record_with_it(own_kafka: OwnKafka) -> None:
    broker = own_kafka.broker
    assert running_broker(broker.folder) == broker
    assert os.getsid(broker.pid) == broker.pid  # a Ctrl-C at the terminal does not reach it
    await own_kafka.stop()
    assert_gone(broker)
    await own_kafka.stop()  # again is no error


def test_a_taken_port_is_told(kafka_runtime: Runtime | str, tmp_path: Path) -> None:
    if not isinstance(kafka_runtime, Runtime):
        pytest.skip(kafka_runtime)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        options = ApacheOptions(port=taken.getsockname()[1])
        with pytest.raises(HostError, match=f"Port {options.port} on 127.0.0.1 is taken"):
            apache.start(tmp_path / "kafka", options, kafka_runtime.java, kafka_runtime.jars)
    assert running_broker(tmp_path / "kafka") is None


def test_a_folder_keeps_its_port_as_long_as_it_is_free(tmp_path: Path) -> None:
    usual = stable_port(tmp_path, apache.PORTS)
    assert usual == stable_port(tmp_path, apache.PORTS)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", usual))
        taken.listen()
        assert stable_port(tmp_path, apache.PORTS) != usual


async def test_the_mock_answers_and_says_what_it_lacks(tmp_path: Path) -> None:
    broker = await asyncio.to_thread(mock.start, tmp_path / "mock", reason="there is no Java.")
    try:
        assert broker.kind is BrokerKind.MOCK
        assert "because there is no Java." in broker.describe()
        assert "second member" in broker.describe()
        assert running_broker(broker.folder) == broker
        standin = Kafka(broker)
        topic = await standin.create_topic()
        await standin.produce(
            topic, [MessageToProduce(value=b"x", key=b"k", headers=[("h", b"v")])]
        )
        (record,) = await standin.consume(topic, 1)
        assert (record.value, record.key, record.headers) == (b"x", b"k", (("h", b"v"),))
    finally:
        stop(broker)
    assert_gone(broker)


def assert_gone(broker: Broker) -> None:
    assert find_process(broker.process) is None
    assert not psutil.pid_exists(broker.pid)
    assert running_broker(broker.folder) is None
    assert not is_answering(broker.bootstrap)


async def _next_of_group(kafka: Kafka, topic: str, group: str) -> Any:
    """The next record for a group, committed."""
    reader = AIOKafkaConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=1,
    )
    await reader.start()
    try:
        record = await reader.getone()
        await reader.commit()
        return record
    finally:
        await reader.stop()
