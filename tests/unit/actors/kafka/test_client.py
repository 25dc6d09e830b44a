import logging

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaError

from actors.kafka.client import client_options, describe_error
from core.shared.kafka_config import KafkaConfig


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KafkaError("gone"), "KafkaError: gone"),
        (KafkaConnectionError("gone"), "KafkaConnectionError: gone"),
        (ConnectionRefusedError("no"), "ConnectionRefusedError: no"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_an_error_is_told_with_its_kind_once(error: Exception, words: str) -> None:
    assert describe_error(error) == words


def test_a_password_is_shown_to_brokers_that_ask_and_to_nobody_else() -> None:
    secret = {"sasl_username": "me", "sasl_password": "verysecret"}
    asked = KafkaConfig(bootstrap="b:1", security_protocol="SASL_PLAINTEXT", **secret)
    assert client_options(asked)["sasl_plain_password"] == "verysecret"
    assert "verysecret" not in repr(asked)
    plain = KafkaConfig(bootstrap="b:1", **secret)
    assert "verysecret" not in str(client_options(plain))


@pytest.mark.parametrize("part", ["conn", "producer.producer", "consumer.fetcher"])
def test_the_client_never_writes_out_what_it_sends(part: str) -> None:
    assert logging.getLogger(f"aiokafka.{part}").getEffectiveLevel() >= logging.INFO
