"""Who changed keys and secrets: written with the change, each tenant's own, kept for its time."""

import asyncpg
import pytest

from core.access.permissions import Permission
from core.access.tokens import CALLBACK
from core.dispatch.job import ANCHOR
from storage.access import keys, signing_secrets
from storage.access.keys import NewKey
from storage.dispatch import webhook_secrets
from storage.postgres import audit_log
from storage.postgres.audit_log import COMMAND_LINE, AuditAction
from storage.postgres.pool import Pool


def new(tenant: int, prefix: str) -> NewKey:
    return NewKey(
        tenant=tenant, name="k", prefix=prefix, secret="s", permissions=(Permission.KEYS_WRITE,)
    )


async def told(pool: Pool, tenant: int) -> list[tuple[str, str, str]]:
    """The log from its beginning."""
    found = await audit_log.page(pool, tenant, None, 100)
    return [(one.actor, one.action, one.object) for one in reversed(found)]


async def test_keys_that_are_made_and_revoked(pool: Pool, tenant: int) -> None:
    await keys.create_key(pool, new(tenant, "first"))
    await keys.create_child_key(pool, new(tenant, "child"), "first")
    await keys.create_child_key(pool, new(tenant, "grandchild"), "child")
    await keys.revoke_key(pool, tenant, "child", "first")
    assert await told(pool, tenant) == [
        (COMMAND_LINE, "key.created", "first"),
        ("first", "key.created", "child"),
        ("child", "key.created", "grandchild"),
        ("first", "key.revoked", "child"),
        ("first", "key.revoked", "grandchild"),
    ]


async def test_what_did_not_happen_is_not_told(pool: Pool, tenant: int) -> None:
    await keys.create_key(pool, new(tenant, "first"))
    assert await keys.create_child_key(pool, new(tenant, "child"), "nobody") is None
    assert await keys.revoke_key(pool, tenant, "nobody") == []
    assert await webhook_secrets.rotate(pool, tenant, "sub_none", b"s" * 32, 0.0) is None
    with pytest.raises(asyncpg.UniqueViolationError):
        await keys.create_key(pool, new(tenant, "first"))
    assert await told(pool, tenant) == [(COMMAND_LINE, "key.created", "first")]


async def test_secrets_that_are_rotated_without_the_secrets(pool: Pool, tenant: int) -> None:
    await webhook_secrets.rotate(pool, tenant, webhook_secrets.OWN, b"s" * 32, 0.0, "first")
    assert await told(pool, tenant) == [("first", "webhook_secret.rotated", "own jobs")]
    number = await signing_secrets.rotate(pool, CALLBACK, b"n" * 32, 0.0)
    assert await told(pool, ANCHOR) == [
        (COMMAND_LINE, "signing_secret.rotated", f"callback {number}")
    ]


async def test_each_tenant_sees_its_own_page_by_page(pool: Pool, tenant: int, other: int) -> None:
    for number in range(5):
        await keys.create_key(pool, new(tenant, f"k{number}"))
    await keys.create_key(pool, new(other, "theirs"))
    first = await audit_log.page(pool, tenant, None, 3)
    rest = await audit_log.page(pool, tenant, first[-1].audit_id, 3)
    assert [one.object for one in (*first, *rest)] == ["k4", "k3", "k2", "k1", "k0"]
    assert [one.object for one in await audit_log.page(pool, other, None, 3)] == ["theirs"]


async def test_it_is_forgotten_after_its_time(pool: Pool, tenant: int) -> None:
    async with pool.acquire() as conn:
        await audit_log.add(conn, tenant, "a", AuditAction.KEY_CREATED, ["old", "older", "new"])
    await pool.execute("update audit_log set at = now() - interval '1 hour' where object != 'new'")
    assert await audit_log.forget(pool, 7_200.0, 10) == 0
    assert await audit_log.forget(pool, 1_800.0, 1) == 1
    assert await audit_log.forget(pool, 1_800.0, 10) == 1
    assert await told(pool, tenant) == [("a", "key.created", "new")]
