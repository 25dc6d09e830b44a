"""What consumer, producer and administration have in common: where Kafka is and who we are."""

import asyncio
import logging
import ssl
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from core.shared.kafka_config import KafkaConfig

# At DEBUG it writes out every request, and so the password that logs in, and the keys and values
# that are sent.
logging.getLogger("aiokafka").setLevel(logging.INFO)

STOP_WITHIN = 2.0


def client_options(config: KafkaConfig) -> dict[str, Any]:
    """The arguments every aiokafka client takes. Holds secrets: never log it."""
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
    """A producer that keeps the order of each key and writes nothing twice by itself."""
    return AIOKafkaProducer(
        **client_options(config),
        enable_idempotence=True,
        acks="all",
        linger_ms=5,
        max_request_size=max_bytes,
        request_timeout_ms=10_000,
    )


async def discard(producer: AIOKafkaProducer) -> None:
    """Stop a producer, without waiting for what it may never get rid of."""
    try:
        async with asyncio.timeout(STOP_WITHIN):
            await producer.stop()
    except (KafkaError, TimeoutError):
        # It was cut short while it waited; the rest of its end:
        await producer._sender.close()  # noqa: SLF001
        await producer.client.close()


def describe_error(error: BaseException) -> str:
    """An error with its kind, once: Kafka's own begin with it already."""
    kind, text = type(error).__name__, str(error)
    return text if kind in text else f"{kind}: {text}".rstrip(": ")


def _tls(config: KafkaConfig) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=config.tls_ca)
    if config.tls_certificate is not None:
        context.load_cert_chain(config.tls_certificate, config.tls_key)
    return context
