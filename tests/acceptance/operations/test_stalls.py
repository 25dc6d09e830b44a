"""Health is progress: parts that answer but get nothing done are DOWN, and UP once they go on."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx
import pytest

from host.postgres import embedded
from storage.postgres.migration_files import known
from tests.support.kafka import Kafka, unique
from tests.support.product import Product, until

# Told within 30 seconds; a machine that runs other tests beside this one may need longer.
SOON = 60.0


@pytest.fixture(scope="module")
def product(impatient: Product) -> Product:
    """An instance whose database these tests hold up."""
    return impatient


@contextlib.asynccontextmanager
async def connected(product: Product) -> AsyncIterator[asyncpg.Connection]:
    server = embedded.running(product.data_dir)
    assert server is not None
    conn = await asyncpg.connect(server.dsn)
    try:
        yield conn
    finally:
        await conn.close()


def health(product: Product) -> dict[str, Any]:
    document: dict[str, Any] = product.http.get("/actuator/health").json()
    return document


def is_up(product: Product) -> bool:
    return bool(health(product)["components"]["shards"]["status"] == "UP")


def is_ready(product: Product) -> bool:
    return product.http.get("/actuator/health/readiness").status_code == 200


def stalled_seconds(product: Product, actor: str) -> float:
    lines = product.http.get("/metrics").text.splitlines()
    wanted = f'muster_stalled_seconds{{actor="{actor}"'
    return max((float(line.split()[-1]) for line in lines if line.startswith(wanted)), default=0.0)


def test_a_shard_and_ingest_that_get_nothing_done_are_down_until_they_do(
    product: Product, kafka: Kafka
) -> None:
    topic = unique("orders")
    asyncio.run(kafka.create_topic(topic))
    wait = product.register({"kafkaEvent": {"topic": topic}, "timeout": 600})
    until(
        "the topic is followed", lambda: topic in json.dumps(product.http.get("/api/kafka").json())
    )
    assert is_ready(product)
    asyncio.run(_held_up(product, kafka, topic, wait))
    until("readiness", lambda: is_ready(product), SOON)
    until("kafka is UP", lambda: health(product)["components"]["kafka"]["status"] == "UP", SOON)
    # What could not be stored meanwhile was not lost.
    until("it ended", lambda: product.show(wait)["status"] == "completed", SOON)
    assert stalled_seconds(product, "shard-0") < 20


async def _held_up(product: Product, kafka: Kafka, topic: str, wait: dict[str, Any]) -> None:
    async with connected(product) as conn, conn.transaction():
        await conn.execute("lock table execution_wait_states in access exclusive mode")
        ids = {"execution_id": wait["executionId"], "correlation_id": wait["correlationId"]}
        await kafka.produce(topic, [json.dumps(ids).encode()])
        calling = threading.Thread(target=_register, args=(product,))
        calling.start()
        await asyncio.to_thread(until, "the shard is DOWN", lambda: not is_up(product), SOON)
        assert not is_ready(product)
        shards = health(product)["components"]["shards"]
        assert shards["detail"].startswith("shard-0: commit stalled for ")
        assert stalled_seconds(product, "shard-0") > 20
        await asyncio.to_thread(
            until,
            "kafka is DOWN",
            lambda: (
                "store_batch stalled" in health(product)["components"]["kafka"].get("detail", "")
            ),
            SOON,
        )
        assert product.http.get("/actuator/health/liveness").status_code == 200
        calling.join()
        query = "select message from dispatch_warnings where category = 'STALLED' and source = $1"
        assert "makes no progress" in await conn.fetchval(query, "shard-0")


def _register(product: Product) -> None:
    """Somebody who is not answered in time."""
    with httpx.Client(base_url=product.url, headers=product.http.headers, trust_env=False) as http:
        config = {"apiCall": {"url": "http://127.0.0.1:9/"}, "timeout": 600}
        body = {"executionId": unique("e"), "nodeId": "n", "data": config}
        reply = http.post("/api/wait-states", json=body, timeout=30)
        assert reply.status_code == 503, reply.text


def test_a_schema_that_is_not_ours_is_told_and_waited_for(product: Product) -> None:
    newest = known()[-1].name
    before = [product.running_pid(name) for name in ("shard-0", "timer")]
    words = f"this version needs {newest[:4]}: run `muster migrate`"
    asyncio.run(_cut(product, "delete from schema_migrations where name = $1", newest))
    until("not ready", lambda: not is_ready(product))
    assert words in health(product)["components"]["database"]["detail"]
    reply = product.http.get("/api/wait-states")
    assert reply.status_code == 503
    assert words in reply.json()["detail"]
    asyncio.run(_cut(product, "insert into schema_migrations (name) values ($1)", newest))
    until("readiness", lambda: is_ready(product), SOON)
    wait = product.register()
    assert product.callback(wait)["verdict"] == "matched"
    assert [product.running_pid(name) for name in ("shard-0", "timer")] == before


async def _cut(product: Product, statement: str, name: str) -> None:
    """Change what was migrated, and have everybody connect anew."""
    async with connected(product) as conn:
        await conn.execute(statement, name)
        await conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name like 'muster %' and pid <> pg_backend_pid()"
        )
