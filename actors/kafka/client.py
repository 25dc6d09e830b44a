"""Connection settings and helpers that all Kafka clients share."""

import asyncio
import logging
import ssl
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from core.shared.kafka_config import KafkaConfig

# At DEBUG aiokafka logs every request, including passwords, keys and values.
logging.getLogger("aiokafka").setLevel(logging.INFO)

STOP_WITHIN = 2.0


def client_options(config: KafkaConfig) -> dict[str, Any]:
    """Return the arguments that every aiokafka client takes. Never log them: secrets."""
    options: dict[str, Any] = {
        "bootstrap_servers": config.bootstrap,
        "client_id": config.client_id,
        "security_protocol": config.security_protocol,
    }
    if config.security_protocol.startswith("SASL"):
        options |= {
            "sasl_mechanism": config.sasl_mechanism,
            "sasl_plain_username": config.sasl_username,
            "sasl_plain_password": config.sasl_password,
        }
    if config.security_protocol.endswith("SSL"):
        options["ssl_context"] = _tls(config)
    return options


def make_producer(config: KafkaConfig, max_bytes: int) -> AIOKafkaProducer:
    """Create an idempotent producer that keeps the order of each key."""
    return AIOKafkaProducer(
        **client_options(config),
        enable_idempotence=True,
        acks="all",
        linger_ms=5,
        max_request_size=max_bytes,
        request_timeout_ms=10_000,
    )


async def start_producer(config: KafkaConfig, max_bytes: int) -> AIOKafkaProducer:
    """Create a producer that has reached a broker."""
    producer = make_producer(config, max_bytes)
    try:
        await producer.start()
    except BaseException:
        await producer.stop()
        raise
    return producer


async def discard(producer: AIOKafkaProducer) -> None:
    """Stop a producer without waiting for messages that it may never deliver."""
    try:
        async with asyncio.timeout(STOP_WITHIN):
            await producer.stop()
    except (KafkaError, TimeoutError):
        # The time-out interrupted stop(); close what it did not.
        await producer._sender.close()  # noqa: SLF001
        await producer.client.close()


def describe_error(error: BaseException) -> str:
    """Describe an error with its type, which Kafka's errors already contain."""
    kind, text = type(error).__name__, str(error)
    return text if kind in text else f"{kind}: {text}".rstrip(": ")


def _tls(config: KafkaConfig) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=config.tls_ca)
    if config.tls_certificate is not None:
        context.load_cert_chain(config.tls_certificate, config.tls_key)
    return context
