"""A database that is put back to a backup while actors go on running."""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import asyncpg
from msgspec.structs import replace

from actors.timers.timer import Timer
from actors.waits.shard import Shard
from core.shared.address import Address
from core.shared.config import Config
from core.waits.messages import OfferReply, RegisterReply, Verdict, WaitMessage
from services.shared.ids import IdGenerator, IdLeases
from services.shared.process import new_turn_id
from storage.postgres.migrate import migrate
from storage.postgres.pool import PoolOptions, open_pool
from storage.waits import waits
from storage.waits.deadlines import DeadlineStore
from tests.support.postgres import BareServer
from tests.support.shards import BOTH, address, api, ask, kafka, register, running_shard

T = TypeVar("T")


class Backup:
    """A copy of all that a server has, taken while it stands still."""

    def __init__(self, server: BareServer, folder: Path) -> None:
        self._server = server
        self._copy = folder / "backup"

    def take(self) -> None:
        self._server.stop()
        subprocess.run(["cp", "-a", str(self._server.server.data_dir), str(self._copy)], check=True)
        self._server.start()

    def restore(self) -> None:
        self._server.stop("immediate")
        data_dir = self._server.server.data_dir
        shutil.rmtree(data_dir)
        subprocess.run(["cp", "-a", str(self._copy), str(data_dir)], check=True)
        self._server.start()


async def patient(work: Callable[[], Awaitable[T]]) -> T:
    async with asyncio.timeout(60):
        while True:
            try:
                return await work()
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await asyncio.sleep(0.1)


async def judged(shard: Shard, message: WaitMessage) -> OfferReply:
    async with asyncio.timeout(60):
        reply = await ask(shard, message)
    assert isinstance(reply, OfferReply), reply
    return reply


async def test_nothing_is_believed_that_the_backup_does_not_have(
    bare_server: BareServer, tmp_path: Path
) -> None:
    dsn, backup = bare_server.dsn, Backup(bare_server, tmp_path)
    await migrate(dsn)
    async with running_shard(dsn) as shard:
        before, after = address(), address()
        await ask(shard, register(before))
        await asyncio.to_thread(backup.take)
        callback = api(before)
        assert (await judged(shard, callback)).verdict is Verdict.MATCHED
        # With a specification that the backup does not have.
        late = register(after, BOTH | {"timeout": 777})
        assert isinstance(await ask(shard, late), RegisterReply)
        assert (await judged(shard, api(after))).verdict is Verdict.MATCHED
        await asyncio.to_thread(backup.restore)
        # Its sender was told so before, and cannot know that it was lost; if it sends it again ...
        again = await judged(shard, replace(callback, turn_id=new_turn_id()))
        assert again.verdict is Verdict.MATCHED
        # ... and a caller that registers again must find the wait that it was promised.
        reply = await ask(shard, replace(late, turn_id=new_turn_id()))
        assert isinstance(reply, RegisterReply)
        assert (await judged(shard, kafka(after))).verdict is Verdict.MATCHED
        await _are_stored(dsn, before, after)


async def _are_stored(dsn: str, *addresses: Address) -> None:
    conn = await asyncpg.connect(dsn)
    try:
        found = await waits.load_waits(conn, [where.key for where in addresses])
        assert set(found) == {where.key for where in addresses}
    finally:
        await conn.close()


async def test_deadlines_that_passed_since_the_backup_fire_again(
    bare_server: BareServer, tmp_path: Path
) -> None:
    dsn, backup = bare_server.dsn, Backup(bare_server, tmp_path)
    await migrate(dsn)
    async with running_shard(dsn) as shard:
        await ask(shard, register(address(), BOTH | {"timeout": 1}))
        await asyncio.to_thread(backup.take)
        pool = await open_pool(PoolOptions(dsn=dsn, name="test"))
        timer = Timer(
            Config(dsn=dsn), DeadlineStore(pool), shard.handle, lambda: time.time() + 2, new_turn_id
        )
        for _ in range(2):
            await patient(timer.sweep)
            timer.tick()
            await timer.settled()
            assert await _statuses(dsn) == {"timeout"}
            await asyncio.to_thread(backup.restore)
            assert await _statuses(dsn) == {"waiting"}
            await patient(timer.sweep)
            timer.tick()
            await timer.settled()
            assert await _statuses(dsn) == {"timeout"}
        pool.terminate()


async def _statuses(dsn: str) -> set[str]:
    conn = await asyncpg.connect(dsn)
    try:
        return {row[0] for row in await conn.fetch("select status from execution_wait_states")}
    finally:
        await conn.close()


async def test_who_makes_ids_looks_whether_its_number_is_still_its_own(
    bare_server: BareServer, tmp_path: Path
) -> None:
    dsn, backup = bare_server.dsn, Backup(bare_server, tmp_path)
    await migrate(dsn)
    await asyncio.to_thread(backup.take)  # before anybody had a number
    pool = await open_pool(PoolOptions(dsn=dsn, name="test"))
    first, second = (IdGenerator(IdLeases(pool, name), time.time) for name in ("first", "second"))
    await first.start()
    await asyncio.to_thread(backup.restore)
    await patient(second.start)
    first.renew_soon()

    async def holders() -> None:
        rows = await pool.fetch("select holder from id_maker_leases")
        assert len({row["holder"] for row in rows}) == len(rows)
        if len(rows) < 2:
            raise ConnectionError("not yet")

    await patient(holders)
    assert first() != second()
    for ids in (first, second):
        await ids.close()
    pool.terminate()
