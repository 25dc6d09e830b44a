"""Events held against their types: what is fine, warned of, refused or unknown."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from core.events.event_type import (
    SchemaType,
    TypeSource,
    TypeStatus,
    Validation,
    Version,
    VersionStatus,
    parse_version,
)
from handlers.schemas import json_schema
from handlers.schemas.interface import CompiledSchema
from services.events.validator import TYPE_TTL, EventValidator, ValidationResult, ValidationStatus
from storage.events.event_types import CompiledSchemaRow, EventType, SpecVersion

CODE = "shop:orders:order:created"
DRAFT, CURRENT, OLD = VersionStatus.FINALISING, VersionStatus.CURRENT, VersionStatus.DEPRECATED


class World:
    """Types as they are stored, and a clock."""

    def __init__(self, *, allow_unknown: bool = True) -> None:
        self.types: dict[tuple[int, str], EventType] = {}
        self.schemas: dict[tuple[int, str, Version], CompiledSchemaRow] = {}
        self.reads: Counter[str] = Counter()
        self.now = 0.0
        self.event_validator = EventValidator(
            self._read, self._compiled, allow_unknown=allow_unknown, monotonic=lambda: self.now
        )

    async def _read(self, tenant: int, code: str) -> EventType | None:
        self.reads["type"] += 1
        return self.types.get((tenant, code))

    async def _compiled(self, tenant: int, code: str, version: Version) -> CompiledSchemaRow | None:
        self.reads["schema"] += 1
        return self.schemas.get((tenant, code, version))

    def put(
        self,
        versions: dict[str, tuple[VersionStatus, Any]],
        validation: Validation = Validation.ENFORCE,
        status: TypeStatus = TypeStatus.CURRENT,
    ) -> None:
        """A type whose versions have these schemas."""
        self.types[1, CODE] = EventType(
            event_type_id="evt_1",
            code=CODE,
            name="x",
            description=None,
            status=status,
            source=TypeSource.API,
            client_scoped=False,
            validation=validation,
            created_at=0,
            updated_at=0,
            versions=tuple(self._version(text, *told) for text, told in versions.items()),
        )

    def _version(self, text: str, status: VersionStatus, schema: Any) -> SpecVersion:
        version = parse_version(text)
        made = json_schema.compile(json.dumps(schema))
        assert version is not None
        assert isinstance(made, CompiledSchema)
        row = CompiledSchemaRow(SchemaType.JSON_SCHEMA, made.form, made.key, made.weight)
        self.schemas[1, CODE, version] = row
        return SpecVersion(
            version=version,
            status=status,
            mime_type="application/json",
            schema_type=SchemaType.JSON_SCHEMA,
            digest=made.key,
            weight=made.weight,
            created_at=0,
            updated_at=0,
        )

    async def check(
        self, data: Any, version: str | None = None, kind: str | None = None
    ) -> ValidationResult:
        return await self.event_validator.check(1, CODE, version, kind, json.dumps(data).encode())


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.event_validator.close()


async def test_an_event_that_fits_is_fine_and_told_which_version(world: World) -> None:
    world.put({"1.0": (CURRENT, {"type": "object"})})
    assert await world.check({}) == ValidationResult(
        ValidationStatus.FINE, accepted=True, version="1.0"
    )


async def test_an_event_that_does_not_fit_is_refused_with_its_mismatches(world: World) -> None:
    world.put({"1.0": (CURRENT, {"type": "object", "required": ["id"]})})
    verdict = await world.check({})
    assert (verdict.status, verdict.accepted, verdict.version) == (
        ValidationStatus.REFUSED,
        False,
        "1.0",
    )
    assert [one.expected for one in verdict.mismatches] == ['"id" is a required property']


async def test_a_mild_type_warns_and_an_idle_one_does_not_look(world: World) -> None:
    versions = {"1.0": (CURRENT, False)}
    world.put(versions, Validation.WARN)
    verdict = await world.check({})
    assert (verdict.status, verdict.accepted) == (ValidationStatus.WARNED, True)
    assert len(verdict.mismatches) == 1
    world.put(versions, Validation.OFF)
    world.event_validator.forget(1, CODE)
    for named in (None, "1.0"):
        assert await world.check({}, named) == ValidationResult(
            ValidationStatus.FINE, accepted=True, version="1.0"
        )
    assert await world.check({}, "9.9") == ValidationResult(ValidationStatus.FINE, accepted=True)


async def test_the_newest_that_fits_counts_and_the_newest_explains(world: World) -> None:
    world.put({"1.0": (CURRENT, {"type": "string"}), "2.0": (CURRENT, {"type": "object"})})
    assert (await world.check({})).version == "2.0"
    assert (await world.check("old")).version == "1.0"
    verdict = await world.check(5)
    assert (verdict.status, verdict.version) == (ValidationStatus.REFUSED, "2.0")
    assert '"object"' in verdict.mismatches[0].expected


async def test_a_version_that_is_named_is_the_only_one_that_counts(world: World) -> None:
    world.put(
        {
            "1.0": (OLD, {"type": "string"}),
            "2.0": (CURRENT, {"type": "object"}),
            "3.0": (DRAFT, {"type": "null"}),
        }
    )
    assert (await world.check("still taken", "1.0")).status is ValidationStatus.FINE
    assert (await world.check("still taken")).status is ValidationStatus.REFUSED
    assert (await world.check({}, "1.0")).status is ValidationStatus.REFUSED
    assert (await world.check({}, "3.0")).status is ValidationStatus.WARNED  # a draft
    for missing in ("9.9", "one", ""):
        verdict = await world.check({}, missing)
        assert (verdict.status, verdict.version) == (ValidationStatus.REFUSED, None)
        assert verdict.is_misnamed


async def test_nothing_is_held_against_drafts_unless_they_are_named(world: World) -> None:
    world.put({"1.0": (DRAFT, False)})
    assert await world.check({}) == ValidationResult(ValidationStatus.FINE, accepted=True)
    world.put({})
    world.event_validator.forget(1, CODE)
    assert await world.check({}) == ValidationResult(ValidationStatus.FINE, accepted=True)


@pytest.mark.parametrize("allowed", [True, False])
async def test_unknown_and_archived_types_go_by_the_setting(allowed: bool) -> None:
    world = World(allow_unknown=allowed)
    assert await world.check({}) == ValidationResult(ValidationStatus.UNKNOWN, accepted=allowed)
    world.put({"1.0": (OLD, {})}, status=TypeStatus.ARCHIVED)
    world.event_validator.forget(1, CODE)
    assert await world.check({}) == ValidationResult(ValidationStatus.UNKNOWN, accepted=allowed)
    world.event_validator.close()


async def test_the_content_type_of_the_event_goes_before_that_of_the_version(world: World) -> None:
    world.put({"1.0": (CURRENT, {})})
    assert (await world.check({}, kind="application/cloudevents+json")).accepted
    assert not (await world.check({}, kind="application/xml")).accepted


async def test_types_and_schemas_are_remembered_for_a_while(world: World) -> None:
    world.put({"1.0": (CURRENT, {"type": "object"})})
    for _ in range(100):
        await world.check({})
    assert world.reads == {"type": 1, "schema": 1}
    world.put({"1.0": (CURRENT, {"type": "null"})})
    assert (await world.check({})).accepted  # not seen yet
    world.now = TYPE_TTL
    assert not (await world.check({})).accepted
    assert world.reads == {"type": 2, "schema": 2}


async def test_a_change_anywhere_is_seen_once_it_is_told(world: World) -> None:
    world.put({"1.0": (CURRENT, {"type": "object"})})
    assert (await world.check({})).accepted
    world.put({"1.0": (CURRENT, {"type": "null"})})
    world.event_validator.clear()
    assert not (await world.check({})).accepted


@pytest.mark.parametrize("code", ["com.example.order.created", "", "a:b:c", "evt_0ABCDEFGHJKMN"])
async def test_what_nobody_can_register_is_not_looked_for(world: World, code: str) -> None:
    verdict = await world.event_validator.check(1, code, None, None, b"{}")
    assert verdict == ValidationResult(ValidationStatus.UNKNOWN, accepted=True)
    assert not world.reads


async def test_a_type_that_is_made_is_seen_once_that_is_told(world: World) -> None:
    for _ in range(3):
        assert (await world.check(1)).status is ValidationStatus.UNKNOWN
    assert world.reads == {"type": 1}
    world.put({"1.0": (CURRENT, {"type": "object"})})
    world.event_validator.clear()
    assert (await world.check(1)).status is ValidationStatus.REFUSED


async def test_a_schema_that_has_just_gone_stops_nobody(world: World) -> None:
    world.put({"1.0": (CURRENT, {"type": "object"})})
    world.schemas.clear()
    assert (await world.check(1)).accepted
    world.put({"1.0": (CURRENT, {"type": "object"})})
    assert not (await world.check(1)).accepted  # what was missing is not remembered


async def test_tenants_have_their_own(world: World) -> None:
    world.put({"1.0": (CURRENT, False)})
    world.types[2, CODE] = replace(world.types[1, CODE], validation=Validation.OFF)
    assert not (await world.check({})).accepted
    assert (await world.event_validator.check(2, CODE, None, None, b"{}")).accepted
    assert (
        await world.event_validator.check(3, CODE, None, None, b"{}")
    ).status is ValidationStatus.UNKNOWN


@pytest.mark.parametrize("validation", Validation)
async def test_events_of_a_client_scoped_type_name_a_client(
    world: World, validation: Validation
) -> None:
    world.put({"1.0": (CURRENT, True)}, validation)
    world.types[1, CODE] = replace(world.types[1, CODE], client_scoped=True)
    refused = await world.event_validator.check(1, CODE, None, None, b"{}")
    assert refused == ValidationResult(ValidationStatus.REFUSED, accepted=False, lacks_client=True)
    taken = await world.event_validator.check(1, CODE, None, None, b"{}", "acme")
    assert taken.accepted
