"""Event types, their versions and schemas, on a real Postgres."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import asyncpg
import pytest

from core.events import event_type as rules
from core.events.event_type import (
    EventTypeRefusal,
    SchemaType,
    TypeSource,
    TypeStatus,
    Validation,
    Version,
    VersionStatus,
)
from storage.access import keys
from storage.events import event_types, schemas
from storage.events.event_types import EventType, NewEventType, TypeChange, TypeFilter, VersionDraft
from storage.events.schemas import SchemaDraft, SchemaFilter
from storage.postgres.pool import Pool, PoolOptions, open_pool

CODE = "shop:orders:order:created"
V10, V11 = Version(1, 0), Version(1, 1)


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test"))
    yield opened
    await opened.close()


@pytest.fixture
async def tenant(pool: Pool) -> int:
    return await keys.create_tenant(pool, "acme")


@pytest.fixture
async def other(pool: Pool) -> int:
    return await keys.create_tenant(pool, "other")


def new_type(code: str = CODE, number: int = 1) -> NewEventType:
    parsed = rules.parse_code(code)
    assert parsed is not None
    return NewEventType(
        event_type_id=f"evt_{number}",
        code=parsed,
        name="Order created",
        description="once",
        source=TypeSource.API,
        client_scoped=False,
        validation=Validation.ENFORCE,
    )


def draft(version: Version = V10, text: str = "{}", compiled: bytes | None = None) -> VersionDraft:
    return VersionDraft(
        version=version,
        mime_type="application/json",
        schema_type=SchemaType.JSON_SCHEMA,
        schema_text=text,
        compiled=compiled,
        digest=text.encode(),
        weight=7,
    )


async def read(pool: Pool, tenant: int, name: str = CODE) -> EventType:
    found = await event_types.read(pool, tenant, name)
    assert found is not None
    return found


async def test_a_type_is_found_by_its_code_and_by_its_id(
    pool: Pool, tenant: int, other: int
) -> None:
    assert await event_types.create(pool, tenant, new_type())
    assert not await event_types.create(pool, tenant, new_type(number=2))  # the code is taken
    found = await read(pool, tenant)
    assert found == await read(pool, tenant, "evt_1")
    assert (found.code, found.name, found.description) == (CODE, "Order created", "once")
    assert (found.status, found.validation) == (TypeStatus.CURRENT, Validation.ENFORCE)
    assert found.versions == ()
    assert await event_types.read(pool, other, CODE) is None
    assert await event_types.create(pool, other, new_type())


async def test_words_change_one_by_one(pool: Pool, tenant: int, other: int) -> None:
    await event_types.create(pool, tenant, new_type())
    assert await event_types.change(pool, tenant, "evt_1", TypeChange(name="Other"))
    found = await read(pool, tenant)
    assert (found.name, found.description) == ("Other", "once")
    wish = TypeChange(describes=True, validation=Validation.WARN)
    assert await event_types.change(pool, tenant, CODE, wish)
    found = await read(pool, tenant)
    assert (found.name, found.description, found.validation) == ("Other", None, Validation.WARN)
    assert not await event_types.change(pool, other, CODE, wish)


async def test_versions_take_their_steps_as_the_rules_decide(pool: Pool, tenant: int) -> None:
    await event_types.create(pool, tenant, new_type())
    for version in (V11, V10):
        added = await event_types.put_version(
            pool, tenant, CODE, draft(version), rules.refuse_version
        )
        assert isinstance(added, EventType)
    again = await event_types.put_version(pool, tenant, CODE, draft(), rules.refuse_version)
    assert again is EventTypeRefusal.VERSION_EXISTS
    for version in (V10, V11):
        moved = await event_types.move_version(pool, tenant, CODE, version, rules.finalise)
        assert isinstance(moved, EventType)
    assert {one.version: one.status for one in moved.versions} == {
        V10: VersionStatus.DEPRECATED,
        V11: VersionStatus.CURRENT,
    }
    refused = await event_types.archive(pool, tenant, CODE, rules.refuse_archive)
    assert refused is EventTypeRefusal.VERSIONS_NOT_DEPRECATED
    refused = await event_types.drop(pool, tenant, CODE, rules.refuse_delete)
    assert refused is EventTypeRefusal.CANNOT_DELETE
    await event_types.move_version(pool, tenant, CODE, V11, rules.deprecate)
    archived = await event_types.archive(pool, tenant, "evt_1", rules.refuse_archive)
    assert isinstance(archived, EventType)
    assert archived.status is TypeStatus.ARCHIVED
    dropped = await event_types.drop(pool, tenant, "evt_1", rules.refuse_delete)
    assert isinstance(dropped, event_types.EventType)
    assert dropped.code == CODE
    assert await event_types.read(pool, tenant, CODE) is None
    assert await pool.fetchval("select count(*) from event_type_versions") == 0


async def test_what_is_not_there_cannot_change(pool: Pool, tenant: int, other: int) -> None:
    await event_types.create(pool, tenant, new_type())
    for owner, name in ((other, CODE), (other, "evt_1"), (tenant, "a:b:c:d")):
        missing = [
            await event_types.put_version(pool, owner, name, draft(), rules.refuse_version),
            await event_types.move_version(pool, owner, name, V10, rules.finalise),
            await event_types.archive(pool, owner, name, rules.refuse_archive),
            await event_types.drop(pool, owner, name, rules.refuse_delete),
        ]
        assert missing == [EventTypeRefusal.EVENT_TYPE_NOT_FOUND] * 4
    assert (await read(pool, tenant)).status is TypeStatus.CURRENT


async def test_of_two_who_finalise_at_once_one_is_in_force(pool: Pool, tenant: int) -> None:
    await event_types.create(pool, tenant, new_type())
    for version in (V10, V11):
        await event_types.put_version(pool, tenant, CODE, draft(version), rules.refuse_version)
    await asyncio.gather(
        *(
            event_types.move_version(pool, tenant, CODE, version, rules.finalise)
            for version in (V10, V11)
        )
    )
    statuses = sorted(one.status for one in (await read(pool, tenant)).versions)
    assert statuses == [VersionStatus.CURRENT, VersionStatus.DEPRECATED]


async def test_a_schema_is_kept_as_text_and_as_what_was_made_of_it(
    pool: Pool, tenant: int, other: int
) -> None:
    await event_types.create(pool, tenant, new_type())
    for one in (draft(text='{"é":1}'), draft(V11, "message", b"\x00made")):
        await event_types.put_version(pool, tenant, CODE, one, rules.refuse_version)
    assert await event_types.schema_text(pool, tenant, CODE, V10) == '{"é":1}'
    plain = await event_types.compiled(pool, tenant, CODE, V10)
    assert plain is not None
    assert (plain.form, plain.weight) == ('{"é":1}'.encode(), 7)
    made = await event_types.compiled(pool, tenant, CODE, V11)
    assert made is not None
    assert made.form == b"\x00made"
    assert await event_types.compiled(pool, other, CODE, V10) is None
    assert await event_types.schema_text(pool, other, CODE, V10) is None
    await event_types.put_version(pool, tenant, CODE, draft(text='{"b":1}'), rules.refuse_rewrite)
    assert await event_types.schema_text(pool, tenant, CODE, V10) == '{"b":1}'


async def test_types_are_listed_by_code_and_filtered_by_their_parts(
    pool: Pool, tenant: int, other: int
) -> None:
    codes = ["crm:a:b:c", "shop:a:b:c", "shop:a:b-c:d", "shop:z:b:c"]
    for number, code in enumerate(codes):
        await event_types.create(pool, tenant, new_type(code, number))
    await event_types.archive(pool, tenant, "crm:a:b:c", rules.refuse_archive)

    async def listed(after: str = "", limit: int = 10, **chosen: str) -> list[str]:
        found = await event_types.page(pool, tenant, TypeFilter(**chosen), after, limit)  # type: ignore[arg-type]
        return [one.code for one in found]

    assert await listed() == sorted(codes)
    assert await listed(limit=2) == sorted(codes)[:2]
    assert await listed(after=sorted(codes)[1]) == sorted(codes)[2:]
    assert await listed(application="crm") == ["crm:a:b:c"]
    assert await listed(subdomain="a", aggregate="b") == ["crm:a:b:c", "shop:a:b:c"]
    assert await listed(status="ARCHIVED") == ["crm:a:b:c"]
    assert await listed(source="UI") == []
    assert await event_types.applications(pool, tenant, 10) == ["crm", "shop"]
    assert await event_types.subdomains(pool, tenant, "crm", 10) == ["a"]
    assert await event_types.subdomains(pool, tenant, None, 1) == ["a"]
    assert await event_types.aggregates(pool, tenant, "shop", "a", 10) == ["b", "b-c"]
    assert await event_types.aggregates(pool, tenant, None, None, 10) == ["b", "b-c"]
    assert await event_types.applications(pool, other, 10) == []


# Schemas by themselves


LOOSE = SchemaDraft(
    name="order",
    description=None,
    mime_type="application/xml",
    schema_type=SchemaType.XSD,
    content="<xs/>",
    event_type_id=None,
    version=None,
)


async def test_a_schema_by_itself_comes_back_whole(pool: Pool, tenant: int, other: int) -> None:
    await schemas.create(pool, tenant, "sch_1", LOOSE)
    found = await schemas.read(pool, tenant, "sch_1")
    assert found is not None
    assert (found.name, found.content, found.schema_type) == ("order", "<xs/>", SchemaType.XSD)
    assert await schemas.read(pool, other, "sch_1") is None
    assert await schemas.replace(pool, tenant, "sch_1", replace(LOOSE, content="<b/>"))
    assert not await schemas.replace(pool, other, "sch_1", LOOSE)
    changed = await schemas.read(pool, tenant, "sch_1")
    assert changed is not None
    assert changed.content == "<b/>"
    assert not await schemas.drop(pool, other, "sch_1")
    assert await schemas.drop(pool, tenant, "sch_1")
    assert not await schemas.drop(pool, tenant, "sch_1")


async def test_a_schema_outlives_the_type_it_was_for(pool: Pool, tenant: int, other: int) -> None:
    await event_types.create(pool, tenant, new_type())
    linked = replace(LOOSE, event_type_id="evt_1", version="1.0")
    await schemas.create(pool, tenant, "sch_1", linked)
    await schemas.create(pool, tenant, "sch_2", LOOSE)
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await schemas.create(pool, other, "sch_3", linked)

    async def listed(**chosen: str) -> list[str]:
        found = await schemas.page(pool, tenant, SchemaFilter(**chosen), "", 10)  # type: ignore[arg-type]
        assert all(one.content is None for one in found)
        return [one.schema_id for one in found]

    assert await listed() == ["sch_1", "sch_2"]
    assert await listed(event_type_id="evt_1") == ["sch_1"]
    assert await listed(schema_type="PROTO") == []
    assert [one.schema_id for one in await schemas.page(pool, tenant, SchemaFilter(), "sch_1", 9)]
    await event_types.drop(pool, tenant, CODE, rules.refuse_delete)
    found = await schemas.read(pool, tenant, "sch_1")
    assert found is not None
    assert (found.event_type_id, found.version) == (None, None)


@pytest.mark.parametrize(
    ("query", "arguments", "index"),
    [
        ("list_event_types", (1, "", None, None, None, None, None, 10), "event_types_pkey"),
        ("read_compiled_schema", (1, CODE, 1, 0), "event_type_versions_pkey"),
        ("list_versions", (1, [CODE]), "event_type_versions_pkey"),
        ("list_aggregates", (1, "shop", "orders", 10), "event_types_segments"),
        ("list_schemas", (1, "", None, None, 10), "schemas_pkey"),
    ],
)
async def test_listings_use_their_index(
    database: str, query: str, arguments: tuple[object, ...], index: str
) -> None:
    from storage.postgres.queries import Q

    conn = await asyncpg.connect(database)
    try:
        await conn.execute("set enable_seqscan = off; set enable_bitmapscan = off")
        plan = await conn.fetch(f"explain {Q[query]}", *arguments)
    finally:
        await conn.close()
    assert index in "\n".join(row[0] for row in plan)
