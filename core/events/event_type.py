"""Event types: their codes, the patterns that match codes, and the life of their versions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

SEGMENT = r"[a-z][a-z0-9-]*"
CODE = rf"^{SEGMENT}:{SEGMENT}:{SEGMENT}:{SEGMENT}$"
CODE_LENGTH = 255
VERSION = r"^[0-9]{1,9}\.[0-9]{1,9}$"
MAX_VERSIONS = 100
ANY = "*"

_CODE = re.compile(CODE.strip("^$"))
_VERSION = re.compile(VERSION.strip("^$"))
_PATTERN_SEGMENT = re.compile(rf"{SEGMENT}|\*")


class TypeStatus(StrEnum):
    """Whether a type is in use."""

    CURRENT = "CURRENT"
    ARCHIVED = "ARCHIVED"


class VersionStatus(StrEnum):
    """How far a version is: its schema may change, is in force, or is on its way out."""

    FINALISING = "FINALISING"
    CURRENT = "CURRENT"
    DEPRECATED = "DEPRECATED"


class TypeSource(StrEnum):
    """Who registered a type."""

    CODE = "CODE"
    API = "API"
    UI = "UI"


class SchemaType(StrEnum):
    """The language a schema is written in."""

    JSON_SCHEMA = "JSON_SCHEMA"
    XSD = "XSD"
    PROTO = "PROTO"


class Validation(StrEnum):
    """What becomes of an event that its schema does not allow."""

    ENFORCE = "enforce"
    WARN = "warn"
    OFF = "off"


class Admission(StrEnum):
    """Which types the events may have that come in: any, or those that are registered."""

    OPEN = "open"
    REGISTERED = "registered"


class EventTypeRefusal(StrEnum):
    """Why a type or a version cannot become what was asked for."""

    CODE_EXISTS = "code_exists"
    VERSION_EXISTS = "version_exists"
    INVALID_STATUS = "invalid_status"
    CANNOT_DEPRECATE_FINALISING = "cannot_deprecate_finalising"
    ALREADY_DEPRECATED = "already_deprecated"
    VERSIONS_NOT_DEPRECATED = "versions_not_deprecated"
    ALREADY_ARCHIVED = "already_archived"
    CANNOT_DELETE = "cannot_delete"
    EVENT_TYPE_NOT_FOUND = "event_type_not_found"
    VERSION_NOT_FOUND = "version_not_found"
    TOO_MANY_VERSIONS = "too_many_versions"
    SCOPE_IS_FIXED = "scope_is_fixed"
    CHANGED_MEANWHILE = "changed_meanwhile"


class EventTypeCode(NamedTuple):
    """What happened to what, and where."""

    application: str
    subdomain: str
    aggregate: str
    event: str

    def __str__(self) -> str:
        return ":".join(self)


class Version(NamedTuple):
    """A version of a type's schema. Those of one major follow each other."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True)
class EventTypeLifecycle:
    """How a type and its versions stand."""

    status: TypeStatus = TypeStatus.CURRENT
    versions: Mapping[Version, VersionStatus] = field(default_factory=dict)


StatusChanges: TypeAlias = Mapping[Version, VersionStatus]


def parse_code(text: str) -> EventTypeCode | None:
    """The segments, or None if it is no code."""
    if len(text) > CODE_LENGTH or not _CODE.fullmatch(text):
        return None
    return EventTypeCode(*text.split(":"))


def parse_version(text: str) -> Version | None:
    """The two numbers, or None if it is no version."""
    if not _VERSION.fullmatch(text):
        return None
    major, _, minor = text.partition(".")
    return Version(int(major), int(minor))


def is_pattern(text: str) -> bool:
    """Whether it is four segments, any of which may be `*`."""
    segments = text.split(":")
    return (
        len(text) <= CODE_LENGTH
        and len(segments) == len(EventTypeCode._fields)
        and all(_PATTERN_SEGMENT.fullmatch(segment) for segment in segments)
    )


def matches(pattern: str, code: str) -> bool:
    """Whether a pattern stands for this code: `*` is any one segment, never more or less."""
    wanted, given = pattern.split(":"), code.split(":")
    return len(wanted) == len(given) and all(
        want in (ANY, segment) for want, segment in zip(wanted, given, strict=True)
    )


def refuse_version(life: EventTypeLifecycle, version: Version) -> EventTypeRefusal | None:
    """Why a type takes no such new version, if it does not."""
    if life.status is TypeStatus.ARCHIVED:
        return EventTypeRefusal.INVALID_STATUS
    if version in life.versions:
        return EventTypeRefusal.VERSION_EXISTS
    if len(life.versions) >= MAX_VERSIONS:
        return EventTypeRefusal.TOO_MANY_VERSIONS
    return None


def refuse_rewrite(life: EventTypeLifecycle, version: Version) -> EventTypeRefusal | None:
    """Why the schema of a version cannot change, if it cannot."""
    status = life.versions.get(version)
    if status is None:
        return EventTypeRefusal.VERSION_NOT_FOUND
    return None if status is VersionStatus.FINALISING else EventTypeRefusal.INVALID_STATUS


def finalise(life: EventTypeLifecycle, version: Version) -> EventTypeRefusal | StatusChanges:
    """The version comes into force and takes the place of the one of its major that was."""
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
    """The version is on its way out: events may still name it."""
    status = life.versions.get(version)
    if status is VersionStatus.CURRENT:
        return {version: VersionStatus.DEPRECATED}
    if status is None:
        return EventTypeRefusal.VERSION_NOT_FOUND
    if status is VersionStatus.FINALISING:
        return EventTypeRefusal.CANNOT_DEPRECATE_FINALISING
    return EventTypeRefusal.ALREADY_DEPRECATED


def refuse_archive(life: EventTypeLifecycle) -> EventTypeRefusal | None:
    """Why a type cannot be archived, if it cannot."""
    if life.status is TypeStatus.ARCHIVED:
        return EventTypeRefusal.ALREADY_ARCHIVED
    if any(status is not VersionStatus.DEPRECATED for status in life.versions.values()):
        return EventTypeRefusal.VERSIONS_NOT_DEPRECATED
    return None


def refuse_delete(life: EventTypeLifecycle) -> EventTypeRefusal | None:
    """Why a type cannot be deleted, if it cannot: somebody may have relied on it."""
    drafts = all(status is VersionStatus.FINALISING for status in life.versions.values())
    if life.status is TypeStatus.ARCHIVED or drafts:
        return None
    return EventTypeRefusal.CANNOT_DELETE


def versions_to_check(life: EventTypeLifecycle, named: Version | None) -> tuple[Version, ...]:
    """What an event is held against: what it names, else what is in force, newest first."""
    if named is not None:
        return (named,) if named in life.versions else ()
    current = [v for v, status in life.versions.items() if status is VersionStatus.CURRENT]
    return tuple(sorted(current, reverse=True))


def is_binding(validation: Validation, status: VersionStatus | None) -> bool:
    """Whether an event that does not fit is refused; a draft can only warn."""
    return validation is Validation.ENFORCE and status is not VersionStatus.FINALISING
