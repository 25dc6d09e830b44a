"""Deliveries whose secrets cannot be decrypted are held, and sent once they can be."""

from collections.abc import Iterator
from typing import Any

import pytest

from core.access.secret_keys import key_id
from storage.dispatch import webhook_secrets
from storage.encryption.cipher import KeyRing, install, key_ring
from storage.operations import warnings as dispatch_warnings
from storage.operations.warnings import WarningFilter
from storage.postgres.pool import Pool
from tests.support.pool_at_work import PoolTenant
from tests.support.scenario_runner import ScenarioRunner

OLD, OTHER = b"o" * 32, b"x" * 32
AUTH = {"type": "bearer", "token": "hunter2"}


@pytest.fixture(autouse=True)
def keys() -> Iterator[None]:
    before = key_ring()
    install(KeyRing(lambda: (OLD,)))
    yield
    install(before)


def lose_the_key() -> None:
    install(KeyRing(lambda: (OTHER,)))


def find_the_key() -> None:
    install(KeyRing(lambda: (OTHER, OLD)))


async def warnings(pool: Pool, tenant: int) -> list[Any]:
    return await dispatch_warnings.page(pool, tenant, WarningFilter(), None, 10)


async def go_on(shop: PoolTenant) -> None:
    """Let it be due now, as if its pause were over."""
    await shop.database.execute(
        "update dispatch_jobs set scheduled_for = now(), standing = 'again', status = 'PENDING'"
        " where tenant_id = $1",
        shop.tenant,
    )


async def is_held_then_sent(runner: ScenarioRunner, shop: PoolTenant, job_id: str) -> None:
    async with shop.working():
        found: list[Any] = []

        async def is_warned_of() -> bool:
            found[:] = await warnings(runner.database, shop.tenant)
            return bool(found)

        await shop.until(is_warned_of)
        (warning,) = found
        assert warning.category == "CONFIGURATION"
        assert key_id(OLD) in warning.message
        row = await runner.database.fetchrow(
            "select status, attempt_count, last_error from dispatch_jobs where job_id = $1", job_id
        )
        assert (row["status"], row["attempt_count"]) == ("QUEUED", 0)
        assert key_id(OLD) in row["last_error"]
        assert shop.came == []
        find_the_key()
        await go_on(shop)
        await shop.done()
    (arrival,) = shop.came
    assert "webhook-signature" in arrival.headers


async def test_a_job_whose_auth_cannot_be_decrypted_waits_for_the_key(
    runner: ScenarioRunner,
) -> None:
    shop = await runner.open_tenant("held-auth")
    await webhook_secrets.own(runner.database, shop.tenant)
    (job_id,) = await shop.post([1], auth=AUTH)
    lose_the_key()
    await is_held_then_sent(runner, shop, job_id)
    assert shop.came[0].headers["authorization"] == "Bearer hunter2"


async def test_a_job_whose_signing_secret_cannot_be_decrypted_is_not_sent_unsigned(
    runner: ScenarioRunner,
) -> None:
    shop = await runner.open_tenant("held-secret")
    await webhook_secrets.own(runner.database, shop.tenant)
    (job_id,) = await shop.post([1])
    lose_the_key()
    await is_held_then_sent(runner, shop, job_id)


async def test_jobs_of_the_same_batch_that_need_no_lost_key_are_sent(
    runner: ScenarioRunner,
) -> None:
    shop = await runner.open_tenant("beside")
    await shop.post([1], auth=AUTH)
    lose_the_key()
    await webhook_secrets.own(runner.database, shop.tenant)
    await shop.post([2])
    async with shop.working():
        await shop.until(lambda: len(shop.came) == 1)
    assert shop.came[0].number == 2
