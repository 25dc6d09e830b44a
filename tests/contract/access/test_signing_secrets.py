"""Signing secrets: what signs, what is still accepted, and that a listing tells no secret."""

import asyncio

from core.access.tokens import CALLBACK, STREAM
from services.shared.change_listener import ChangeListener
from storage.access import keys, signing_secrets
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import Pool

FRESH = b"n" * 32


async def live(pool: Pool, purpose: str = CALLBACK) -> list[bytes]:
    return await keys.signing_secrets(pool, purpose, b"never")


async def test_the_new_secret_signs_and_the_old_is_accepted_for_the_grace(pool: Pool) -> None:
    (first,) = await keys.signing_secrets(pool, CALLBACK, b"f" * 32)
    await signing_secrets.rotate(pool, CALLBACK, FRESH, 60.0)
    assert await live(pool) == [FRESH, first]
    await pool.execute("update signing_secrets set retired_at = now() where retired_at is not null")
    assert await live(pool) == [FRESH]


async def test_without_a_grace_the_old_one_is_over_at_once(pool: Pool) -> None:
    await keys.signing_secrets(pool, CALLBACK, b"f" * 32)
    await signing_secrets.rotate(pool, CALLBACK, FRESH, 0.0)
    assert await live(pool) == [FRESH]


async def test_a_later_rotation_does_not_prolong_what_ends_sooner(pool: Pool) -> None:
    await keys.signing_secrets(pool, CALLBACK, b"f" * 32)
    await signing_secrets.rotate(pool, CALLBACK, b"s" * 32, 0.0)
    await signing_secrets.rotate(pool, CALLBACK, FRESH, 3600.0)
    assert await live(pool) == [FRESH, b"s" * 32]


async def test_one_purpose_leaves_the_other_alone(pool: Pool) -> None:
    streams = await keys.signing_secrets(pool, STREAM, b"t" * 32)
    await signing_secrets.rotate(pool, CALLBACK, FRESH, 0.0)
    assert await live(pool, STREAM) == streams


async def test_a_listing_has_ages_and_no_secret(pool: Pool) -> None:
    await keys.signing_secrets(pool, CALLBACK, b"f" * 32)
    rotated = await signing_secrets.rotate(pool, CALLBACK, FRESH, 60.0)
    newest, oldest = await signing_secrets.list_ages(pool)
    assert (newest.secret_id, newest.retired_at, newest.is_live) == (rotated, None, True)
    assert oldest.retired_at is not None
    assert oldest.is_live
    assert newest.age >= 0
    assert "secret=" not in repr(newest)


async def test_every_replica_hears_of_it(pool: Pool, database: str) -> None:
    heard = asyncio.Event()
    notices = ChangeListener()
    notices.on_change(ChangeTopic.SIGNING_SECRETS, heard.set)
    listening = asyncio.create_task(notices.run_forever(database))
    try:
        await asyncio.wait_for(notices.listening.wait(), 10)
        await asyncio.wait_for(heard.wait(), 10)  # of what changed before it listened
        heard.clear()
        await signing_secrets.rotate(pool, CALLBACK, FRESH, 60.0)
        await asyncio.wait_for(heard.wait(), 10)
    finally:
        listening.cancel()
