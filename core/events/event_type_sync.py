"""Plans the changes that bring an event type to what an application declares."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from core.events.event_type import (
    EventTypeLifecycle,
    EventTypeRefusal,
    StatusChanges,
    TypeStatus,
    Version,
    VersionStatus,
    finalise,
    refuse_archive,
    refuse_delete,
    refuse_rewrite,
    refuse_version,
)


class DesiredVersion(NamedTuple):
    """A declared version. Without a status, the version keeps its status."""

    version: Version
    schema_differs: bool
    """Whether the stored schema differs or is missing."""
    status: VersionStatus | None = None


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """The changes to make: schemas to store, then statuses to set."""

    new_schemas: tuple[Version, ...] = ()
    status_changes: StatusChanges = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.new_schemas or self.status_changes)


class SyncPlanRefused(NamedTuple):
    """Why a declaration cannot be applied, and the version that prevents it."""

    refusal: EventTypeRefusal
    version: Version | None = None


class RemovalPlan(NamedTuple):
    """What happens to a type that is no longer declared: deleted, archived, or kept."""

    deletes: bool = False
    kept: EventTypeRefusal | None = None


def plan_sync(
    life: EventTypeLifecycle, declared: Iterable[DesiredVersion]
) -> SyncPlanRefused | SyncPlan:
    """Plan the changes from the current state of a type to its declaration.

    Versions that are not declared stay.
    """
    if life.status is TypeStatus.ARCHIVED:
        return SyncPlanRefused(EventTypeRefusal.ALREADY_ARCHIVED)
    puts: list[Version] = []
    moves: dict[Version, VersionStatus] = {}
    for one in sorted(declared, key=lambda one: one.version):
        if one.schema_differs:
            known = one.version in life.versions
            refusal = (refuse_rewrite if known else refuse_version)(life, one.version)
            if refusal is not None:
                return SyncPlanRefused(refusal, one.version)
            puts.append(one.version)
            life = _with(life, {one.version: VersionStatus.FINALISING})
        changes = _changes(life, one)
        if isinstance(changes, EventTypeRefusal):
            return SyncPlanRefused(changes, one.version)
        moves.update(changes)
        life = _with(life, changes)
    return SyncPlan(tuple(puts), moves)


def plan_removal(life: EventTypeLifecycle) -> RemovalPlan:
    """Plan the removal of a type that is no longer declared."""
    if refuse_delete(life) is None:
        return RemovalPlan(deletes=True)
    return RemovalPlan(kept=refuse_archive(life))


def _changes(life: EventTypeLifecycle, wanted: DesiredVersion) -> EventTypeRefusal | StatusChanges:
    """Return the status changes that bring a version to its declared status."""
    status = life.versions.get(wanted.version)
    if status is None:
        return EventTypeRefusal.VERSION_NOT_FOUND
    if wanted.status is None or wanted.status is status:
        return {}
    if wanted.status is VersionStatus.CURRENT:
        return finalise(life, wanted.version)
    if wanted.status is VersionStatus.DEPRECATED:
        # Even from FINALISING: applications declare versions that were in force before.
        return {wanted.version: VersionStatus.DEPRECATED}
    return EventTypeRefusal.INVALID_STATUS


def _with(life: EventTypeLifecycle, changes: StatusChanges) -> EventTypeLifecycle:
    return replace(life, versions={**life.versions, **changes})
