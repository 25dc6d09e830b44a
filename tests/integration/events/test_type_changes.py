"""A type that changes in one process is seen by every other at once."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial

import pytest

from core.events import event_type as rules
from core.events.event_type import SchemaType, TypeSource, Validation, Version
from handlers.schemas.interface import CompiledSchema
from services.events.validator import EventValidator, ValidationStatus
from services.shared.change_listener import ChangeListener
from storage.access import keys
from storage.events import event_types
from storage.events.event_types import NewEventType, TypeChange, VersionDraft
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import Pool, PoolOptions, open_pool

CODE = "shop:orders:order:created"
V10 = Version(1, 0)


class Elsewhere:
    """A process that holds events against their types, and hears of changes."""

    def __init__(self, pool: Pool) -> None:
        self.event_validator = EventValidator(
            partial(event_types.read, pool),
            partial(event_types.compiled, pool),
            allow_unknown=False,
            monotonic=lambda: 0.0,  # nothing is ever too old here
        )
        self.notices = ChangeListener()
        self.notices.on_change(ChangeTopic.EVENT_TYPES, self.event_validator.clear)
        self.heard = asyncio.Event()
        self.notices.on_change(ChangeTopic.EVENT_TYPES, self.heard.set)

    async def told(self) -> None:
        """Wait for the next notice."""
        await asyncio.wait_for(self.heard.wait(), 30)
        self.heard.clear()

    async def status(self, tenant: int, payload: bytes) -> ValidationStatus:
        return (await self.event_validator.check(tenant, CODE, None, None, payload)).status


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test"))
    yield opened
    await opened.close()


@pytest.fixture
async def elsewhere(database: str, pool: Pool) -> AsyncIterator[Elsewhere]:
    made = Elsewhere(pool)
    listening = asyncio.create_task(made.notices.run_forever(database))
    await made.told()  # it has begun to listen
    yield made
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    made.event_validator.close()


async def test_each_step_of_a_type_is_seen_elsewhere(pool: Pool, elsewhere: Elsewhere) -> None:
    tenant = await keys.create_tenant(pool, "acme")
    code = rules.parse_code(CODE)
    assert code is not None
    assert await elsewhere.status(tenant, b"{}") is ValidationStatus.UNKNOWN
    new = NewEventType(
        event_type_id="evt_1",
        code=code,
        name="x",
        description=None,
        source=TypeSource.API,
        client_scoped=False,
        validation=Validation.ENFORCE,
    )
    await event_types.create(pool, tenant, new)
    await elsewhere.told()
    assert await elsewhere.status(tenant, b"{}") is ValidationStatus.FINE

    text = '{"required": ["id"]}'
    compiled = await elsewhere.event_validator.checks.compile(tenant, SchemaType.JSON_SCHEMA, text)
    assert isinstance(compiled, CompiledSchema)
    draft = VersionDraft(
        version=V10,
        mime_type="application/json",
        schema_type=SchemaType.JSON_SCHEMA,
        schema_text=text,
        compiled=None,
        digest=compiled.key,
        weight=compiled.weight,
    )
    await event_types.put_version(pool, tenant, CODE, draft, rules.refuse_version)
    await elsewhere.told()
    await event_types.move_version(pool, tenant, CODE, V10, rules.finalise)
    began = time.monotonic()
    await elsewhere.told()
    assert time.monotonic() - began < 5
    assert await elsewhere.status(tenant, b"{}") is ValidationStatus.REFUSED
    assert await elsewhere.status(tenant, b'{"id":1}') is ValidationStatus.FINE

    await event_types.change(pool, tenant, CODE, TypeChange(validation=Validation.WARN))
    await elsewhere.told()
    assert await elsewhere.status(tenant, b"{}") is ValidationStatus.WARNED
