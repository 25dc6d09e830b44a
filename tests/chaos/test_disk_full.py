"""No space left on device: explicit refusals, nothing acknowledged lost, and on it goes.

The data of the embedded PostgreSQL lies on a small filesystem of its own, which another file fills
up. Where the tables cannot grow, PostgreSQL refuses the statement and lives on. Where its log
cannot grow, it panics, cannot recover either, and ends.
"""

import asyncio
import contextlib
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from actors.messaging.shard_client import ShardClient
from actors.messaging.shard_messages import decode_messages, encode_batch
from actors.runtime.names import shard_name
from core.shared.config import Config
from host.postgres import embedded
from host.postgres.paths import ServerPaths
from storage.postgres.migrate import migrate
from storage.postgres.pool import CONNECTION_ERRORS, Pool, PoolOptions, open_pool
from tests.chaos.cluster_load import Send, under_load, until
from tests.support.product import running_product
from tests.support.shards import running_shard
from tools.chaos.exercise import ChaosTarget, Drill, DrillPlan, run_drill
from tools.chaos.scenario import ScenarioShape

MEGABYTES = 128
WARM = 100  # acknowledged requests before and after


class SmallDisk:
    """A filesystem that can be filled and emptied."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leave not a byte."""
        with contextlib.suppress(OSError), self._ballast.open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(4096))

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)


@contextlib.contextmanager
def small_disk(data_dir: Path, made: Path) -> Iterator[SmallDisk]:
    """Data of a server that was made before, on a filesystem of its own."""
    pgdata, original = data_dir / "postgres", made / "postgres"
    pgdata.mkdir(parents=True)
    owner = original.stat()
    options = f"size={MEGABYTES}m,mode=0700,uid={owner.st_uid},gid={owner.st_gid}"
    mount = ["mount", "-t", "tmpfs", "-o", options, "muster-small-disk", str(pgdata)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a filesystem of limited size cannot be mounted here: {done.stderr.strip()}")
    try:
        subprocess.run(["cp", "-a", f"{original}/.", str(pgdata)], check=True)
        subprocess.run(["cp", "-a", str(made / "postgres.password"), str(data_dir)], check=True)
        yield SmallDisk(pgdata)
    finally:
        embedded.stop(data_dir, mode="immediate")
        subprocess.run(["umount", str(pgdata)], check=True)


@dataclass(slots=True)
class Bench:
    """Something under load whose PostgreSQL has a small disk."""

    disk: SmallDisk
    data_dir: Path
    drill: Drill

    @property
    def server(self) -> embedded.EmbeddedServer | None:
        return embedded.running(self.data_dir)

    async def acknowledged(self, more: int) -> float:
        """Seconds until so many requests more were acknowledged."""
        began, tally = time.monotonic(), self.drill.load.stats
        goal = tally.acknowledged + more
        await until(f"{more} more acknowledged", lambda: tally.acknowledged >= goal)
        return time.monotonic() - began

    async def refused(self, more: int) -> None:
        """Return once so many callers more were told to come back later."""
        refused = self.drill.load.stats.refused
        goal = refused[503] + more
        await until(f"{more} more refused", lambda: refused[503] >= goal)

    async def end_log_segment(self) -> None:
        """Let PostgreSQL need the next file of its log with the next write."""
        if (server := self.server) is None:
            return
        # If that write comes before the answer, the answer is lost.
        with contextlib.suppress(*CONNECTION_ERRORS):
            conn = await asyncpg.connect(server.dsn, user="postgres")
            try:
                await conn.execute("select pg_switch_wal()")
            finally:
                conn.terminate()

    async def exhaust_log(self) -> None:
        """PostgreSQL may have some files in store: use them up."""

        async def ended() -> bool:
            await self.end_log_segment()
            return self.server is None

        await until("PostgreSQL ends", ended)

    async def bring_back(self) -> None:
        """What whoever owns the server does when there is space again."""
        await asyncio.to_thread(embedded.start, self.data_dir)

    def assert_clean(self) -> None:
        result = self.drill.result
        assert result.account.clean, [str(finding) for finding in result.account.findings[:10]]
        assert result.given_up == 0
        assert result.stats.unexpected == {}
        assert result.stats.bare == 0, "a refusal did not say when to come back"


async def fill_the_tables(bench: Bench) -> None:
    await bench.end_log_segment()  # so that the log has room for all of this
    await bench.acknowledged(WARM)
    before = bench.server
    bench.disk.fill()
    await bench.refused(20)
    assert bench.server == before, "PostgreSQL lives on"
    bench.disk.empty()
    assert await bench.acknowledged(WARM) < 30


async def fill_the_log(bench: Bench) -> None:
    await bench.acknowledged(WARM)
    bench.disk.fill()
    await bench.exhaust_log()
    await bench.refused(20)
    bench.disk.empty()
    await bench.bring_back()
    assert await bench.acknowledged(WARM) < 30
    assert "PANIC" in ServerPaths.at(bench.data_dir).log.read_text(errors="replace")


@dataclass(slots=True)
class Parts:
    """Router and shards without Ray between them."""

    config: Config
    pool: Pool
    send: Send


@contextlib.asynccontextmanager
async def parts(dsn: str) -> AsyncIterator[Parts]:
    """Two shards in this process: what meets PostgreSQL is the same, and it is there at once."""
    config = Config(dsn=dsn, shards=2, request_timeout=2.0, secret_keys=(b"k" * 32,))
    pool = await open_pool(PoolOptions(dsn=dsn, name="test"))
    async with contextlib.AsyncExitStack() as stack:
        names = [shard_name(index) for index in range(config.shards)]
        shards = {name: await stack.enter_async_context(running_shard(dsn, name)) for name in names}

        async def deliver(name: str, batch: bytes) -> bytes:
            return encode_batch(await shards[name].handle(decode_messages(batch)))

        router = ShardClient(config, deliver)
        try:
            yield Parts(config, pool, router.send)
        finally:
            await router.close()
            pool.terminate()


@pytest.mark.parametrize("fault", [fill_the_tables, fill_the_log])
async def test_no_space_is_refused_in_words_and_loses_nothing(
    fault: Callable[[Bench], Awaitable[None]], tmp_path: Path, made_data: Path
) -> None:
    data_dir = tmp_path / "data"
    with small_disk(data_dir, made_data) as disk:
        server = embedded.start(data_dir)
        await migrate(server.dsn)
        plan = DrillPlan(seed=1, folder=tmp_path, rate=40.0, floor=2 * WARM)
        async with parts(server.dsn) as way_in, under_load(way_in, plan) as (drill, load):
            load.excluded_shapes.add(ScenarioShape.UNANSWERED)  # deadlines are the timer's part
            bench = Bench(disk, data_dir, drill)
            await fault(bench)
        bench.assert_clean()


@pytest.mark.long
async def test_the_whole_product_does_so_over_http(tmp_path: Path, made_data: Path) -> None:
    data_dir = tmp_path / ".muster"
    with (
        small_disk(data_dir, made_data) as disk,
        running_product(data_dir, "--shards", "2", request_timeout="3") as product,
    ):
        for fault in (fill_the_tables, fill_the_log):
            server = embedded.running(data_dir)
            assert server is not None
            plan = DrillPlan(seed=1, folder=tmp_path, rate=20.0, floor=2 * WARM)
            target = ChaosTarget(product.url, product.key, server.dsn)
            async with run_drill(target, plan) as drill:
                bench = Bench(disk, data_dir, drill)
                await fault(bench)
            bench.assert_clean()
