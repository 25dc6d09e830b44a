"""Validates incoming events against their types."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import astuple, dataclass
from enum import StrEnum
from typing import TypeAlias

from core.events import event_type
from core.events.event_type import EventTypeLifecycle, TypeStatus, Validation, Version
from handlers.schemas.interface import CompiledSchema, Mismatch, mismatch
from handlers.schemas.validator import SchemaValidator
from services.shared.cache import Cache
from storage.events.event_types import CompiledSchemaRow, EventType

# Changes are notified at once (services/shared/change_listener.py); this is for a missed one.
TYPE_TTL = 300.0
SCHEMA_TTL = 600.0
SCHEMA_LIMIT = 128


class ValidationStatus(StrEnum):
    """The result of validating an event against its type."""

    FINE = "fine"
    WARNED = "warned"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """Whether an event is accepted, its version, and the schema errors."""

    status: ValidationStatus
    accepted: bool
    version: str | None = None
    mismatches: tuple[Mismatch, ...] = ()
    is_misnamed: bool = False
    """The event names a version that its type does not have."""
    lacks_client: bool = False
    """The type requires a client, and the event names none."""


@dataclass(frozen=True, slots=True)
class _CachedType:
    """The cached properties of a type."""

    lifecycle: EventTypeLifecycle
    validation: Validation
    is_client_scoped: bool
    usual: tuple[Version, ...]
    mime_types: dict[Version, str]
    digests: dict[Version, bytes]


_TypeKey: TypeAlias = tuple[int, str]
_SchemaKey: TypeAlias = tuple[int, str, Version, bytes]

_FINE = ValidationResult(ValidationStatus.FINE, accepted=True)
_NO_CLIENT = ValidationResult(ValidationStatus.REFUSED, accepted=False, lacks_client=True)


class EventValidator:
    """Validates events against types, which it caches until they change.

    The process that changes a type calls `forget` before it answers; all processes call `clear` on
    notification.
    """

    def __init__(
        self,
        read: Callable[[int, str], Awaitable[EventType | None]],
        compiled: Callable[[int, str, Version], Awaitable[CompiledSchemaRow | None]],
        *,
        allow_unknown: bool,
        checks: SchemaValidator | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.checks = checks or SchemaValidator()
        self._unknown = ValidationResult(ValidationStatus.UNKNOWN, accepted=allow_unknown)

        async def known(key: _TypeKey) -> _CachedType | None:
            tenant, code = key
            if event_type.parse_code(code) is None:
                return None  # such a type cannot be registered
            found = await read(tenant, code)
            return _known(found) if found else None

        async def schema(key: _SchemaKey) -> CompiledSchema | None:
            tenant, code, version, _ = key
            row = await compiled(tenant, code, version)
            return CompiledSchema(*astuple(row)) if row else None

        self._types: Cache[_TypeKey, _CachedType | None] = Cache(
            known, ttl=lambda _found: TYPE_TTL, monotonic=monotonic
        )
        self._schemas: Cache[_SchemaKey, CompiledSchema | None] = Cache(
            schema,
            ttl=lambda found: SCHEMA_TTL if found else 0.0,
            monotonic=monotonic,
            limit=SCHEMA_LIMIT,
        )

    async def check(
        self,
        tenant: int,
        code: str,
        version: str | None,
        content_type: str | None,
        data: bytes,
        client: str | None = None,
    ) -> ValidationResult:
        """Validate an event; `client` is the client that it concerns, if any.

        Raises:
            TransientError: It cannot be validated now.
        """
        known = await self._types.get((tenant, code))
        if known is None or known.lifecycle.status is TypeStatus.ARCHIVED:
            return self._unknown
        if known.is_client_scoped and client is None:
            return _NO_CLIENT
        versions = known.usual if version is None else _named(known, version)
        if known.validation is Validation.OFF:
            return _fine(versions[0]) if versions else _FINE
        if version is not None and not versions:
            expected = f"a version that {code} has, not {version}"
            return _unfit(known, None, [mismatch("", expected)])
        unfit: ValidationResult | None = None
        for candidate in versions:
            found = await self._validate((tenant, code), known, candidate, content_type, data)
            if not found:
                return _fine(candidate)
            unfit = unfit or _unfit(known, candidate, found)
        return unfit or _FINE

    def forget(self, tenant: int, code: str) -> None:
        """Read a type again with its next event."""
        self._types.forget((tenant, code))

    def clear(self, tenant: int | None = None) -> None:
        """Read the types of one tenant, or of all, again after a change."""
        self._types.forget_where(lambda key: tenant in (None, key[0]))

    def close(self) -> None:
        self.checks.close()

    async def _validate(
        self,
        key: _TypeKey,
        known: _CachedType,
        version: Version,
        content_type: str | None,
        data: bytes,
    ) -> list[Mismatch]:
        tenant, code = key
        schema = await self._schemas.get((tenant, code, version, known.digests[version]))
        if schema is None:
            return []  # the type was deleted a moment ago
        kind = content_type or known.mime_types[version]
        return await self.checks.check(tenant, schema, data, kind)


def _known(found: EventType) -> _CachedType:
    life = found.lifecycle
    return _CachedType(
        lifecycle=life,
        validation=found.validation,
        is_client_scoped=found.client_scoped,
        usual=event_type.versions_to_check(life, None),
        mime_types={one.version: one.mime_type for one in found.versions},
        digests={one.version: one.digest for one in found.versions},
    )


def _named(known: _CachedType, text: str) -> tuple[Version, ...]:
    named = event_type.parse_version(text)
    return () if named is None else event_type.versions_to_check(known.lifecycle, named)


def _fine(version: Version) -> ValidationResult:
    return ValidationResult(ValidationStatus.FINE, accepted=True, version=str(version))


def _unfit(known: _CachedType, version: Version | None, found: list[Mismatch]) -> ValidationResult:
    status = None if version is None else known.lifecycle.versions[version]
    binding = event_type.is_binding(known.validation, status)
    return ValidationResult(
        ValidationStatus.REFUSED if binding else ValidationStatus.WARNED,
        accepted=not binding,
        version=None if version is None else str(version),
        mismatches=tuple(found),
        is_misnamed=version is None,
    )
