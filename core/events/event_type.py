"""Event types: their codes, the patterns that match codes, and the lifecycle of versions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from core.shared.refusal import CONFLICT, NOT_FOUND, Refusal

SEGMENT = r"[a-z][a-z0-9-]*"
CODE = rf"^{SEGMENT}:{SEGMENT}:{SEGMENT}:{SEGMENT}$"
CODE_LENGTH = 255
VERSION = r"^[0-9]{1,9}\.[0-9]{1,9}$"
MAX_VERSIONS = 100
ANY = "*"
RECORD_EVENTS = "muster:records:"
"""How the types of events begin that Muster makes from changes of records."""

_CODE = re.compile(CODE.strip("^$"))
_VERSION = re.compile(VERSION.strip("^$"))
_PATTERN_SEGMENT = re.compile(rf"{SEGMENT}|\*")


class TypeStatus(StrEnum):
    CURRENT = "CURRENT"
    ARCHIVED = "ARCHIVED"


class VersionStatus(StrEnum):
    """The lifecycle of a version: its schema may change, is in force, or is on its way out."""

    FINALISING = "FINALISING"
    CURRENT = "CURRENT"
    DEPRECATED = "DEPRECATED"


class TypeSource(StrEnum):
    CODE = "CODE"
    API = "API"
    UI = "UI"


class SchemaType(StrEnum):
    JSON_SCHEMA = "JSON_SCHEMA"
    XSD = "XSD"
    PROTO = "PROTO"


class Validation(StrEnum):
    """What happens to an event that does not match its schema."""

    ENFORCE = "enforce"
    WARN = "warn"
    OFF = "off"


class Admission(StrEnum):
    """Which event types are accepted: any, or only registered ones."""

    OPEN = "open"
    REGISTERED = "registered"


class EventTypeRefusal(Refusal):
    """Why an event type or a version cannot be created, changed or removed."""

    CODE_EXISTS = CONFLICT, "an event type has this code already"
    VERSION_EXISTS = CONFLICT, "the event type has this version already"
    INVALID_STATUS = (
        CONFLICT,
        "only a version that is FINALISING can change or become CURRENT, and an event type that is "
        "ARCHIVED takes no new version",
    )
    CANNOT_DEPRECATE_FINALISING = CONFLICT, "a version that never was CURRENT cannot be deprecated"
    ALREADY_DEPRECATED = CONFLICT, "the version is DEPRECATED already"
    VERSIONS_NOT_DEPRECATED = (
        CONFLICT,
        "the event type has versions that are not DEPRECATED: deprecate them, then archive it",
    )
    ALREADY_ARCHIVED = CONFLICT, "the event type is ARCHIVED already"
    CANNOT_DELETE = CONFLICT, "the event type has versions that were CURRENT: archive it first"
    EVENT_TYPE_NOT_FOUND = NOT_FOUND, "there is no such event type"
    VERSION_NOT_FOUND = NOT_FOUND, "the event type has no such version"
    TOO_MANY_VERSIONS = CONFLICT, f"an event type has {MAX_VERSIONS} versions at most"
    SCOPE_IS_FIXED = CONFLICT, "clientScoped cannot change after an event type is registered"
    CHANGED_MEANWHILE = CONFLICT, "the event type was changed by another request: try again"


class EventTypeCode(NamedTuple):
    application: str
    subdomain: str
    aggregate: str
    event: str

    def __str__(self) -> str:
        return ":".join(self)


class Version(NamedTuple):
    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True)
class EventTypeLifecycle:
    status: TypeStatus = TypeStatus.CURRENT
    versions: Mapping[Version, VersionStatus] = field(default_factory=dict)


StatusChanges: TypeAlias = Mapping[Version, VersionStatus]


def parse_code(text: str) -> EventTypeCode | None:
    if len(text) > CODE_LENGTH or not _CODE.fullmatch(text):
        return None
    return EventTypeCode(*text.split(":"))


def parse_version(text: str) -> Version | None:
    if not _VERSION.fullmatch(text):
        return None
    major, _, minor = text.partition(".")
    return Version(int(major), int(minor))


def is_pattern(text: str) -> bool:
    """Return True if the text has four segments, any of which may be `*`."""
    segments = text.split(":")
    return (
        len(text) <= CODE_LENGTH
        and len(segments) == len(EventTypeCode._fields)
        and all(_PATTERN_SEGMENT.fullmatch(segment) for segment in segments)
    )


def refuse_version(life: EventTypeLifecycle, version: Version) -> EventTypeRefusal | None:
    if life.status is TypeStatus.ARCHIVED:
        return EventTypeRefusal.INVALID_STATUS
    if version in life.versions:
        return EventTypeRefusal.VERSION_EXISTS
    if len(life.versions) >= MAX_VERSIONS:
        return EventTypeRefusal.TOO_MANY_VERSIONS
    return None


def refuse_rewrite(life: EventTypeLifecycle, version: Version) -> EventTypeRefusal | None:
    """Return why the schema of a version cannot change."""
    status = life.versions.get(version)
    if status is None:
        return EventTypeRefusal.VERSION_NOT_FOUND
    return None if status is VersionStatus.FINALISING else EventTypeRefusal.INVALID_STATUS


def finalise(life: EventTypeLifecycle, version: Version) -> EventTypeRefusal | StatusChanges:
    """Put a version in force and deprecate the current one of the same major."""
    refusal = refuse_rewrite(life, version)
    if refusal is not None:
        return refusal
    before = {
        other: VersionStatus.DEPRECATED
        for other, status in life.versions.items()
        if other.major == version.major and status is VersionStatus.CURRENT
    }
    return {**before, version: VersionStatus.CURRENT}


def deprecate(life: EventTypeLifecycle, version: Version) -> EventTypeRefusal | StatusChanges:
    """Deprecate a version; events may still name it."""
    status = life.versions.get(version)
    if status is VersionStatus.CURRENT:
        return {version: VersionStatus.DEPRECATED}
    if status is None:
        return EventTypeRefusal.VERSION_NOT_FOUND
    if status is VersionStatus.FINALISING:
        return EventTypeRefusal.CANNOT_DEPRECATE_FINALISING
    return EventTypeRefusal.ALREADY_DEPRECATED


def refuse_archive(life: EventTypeLifecycle) -> EventTypeRefusal | None:
    if life.status is TypeStatus.ARCHIVED:
        return EventTypeRefusal.ALREADY_ARCHIVED
    if any(status is not VersionStatus.DEPRECATED for status in life.versions.values()):
        return EventTypeRefusal.VERSIONS_NOT_DEPRECATED
    return None


def refuse_delete(life: EventTypeLifecycle) -> EventTypeRefusal | None:
    """Return why a type cannot be deleted; it can unless a version was in force."""
    drafts = all(status is VersionStatus.FINALISING for status in life.versions.values())
    if life.status is TypeStatus.ARCHIVED or drafts:
        return None
    return EventTypeRefusal.CANNOT_DELETE


def versions_to_check(life: EventTypeLifecycle, named: Version | None) -> tuple[Version, ...]:
    """List the versions to check an event against: the named one, or the current ones."""
    if named is not None:
        return (named,) if named in life.versions else ()
    current = [v for v, status in life.versions.items() if status is VersionStatus.CURRENT]
    return tuple(sorted(current, reverse=True))


def is_binding(validation: Validation, status: VersionStatus | None) -> bool:
    """Return True if an event that does not match is refused; a draft can only warn."""
    return validation is Validation.ENFORCE and status is not VersionStatus.FINALISING
