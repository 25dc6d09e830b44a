"""An event type as an application declares it: which steps lead there from how it stands."""

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
    """A version as it is to be. Without a status it stays as far as it is."""

    version: Version
    schema_differs: bool
    """Its schema is not the one that is kept, or none is."""
    status: VersionStatus | None = None


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """What is to be done: schemas to keep, then statuses to set."""

    new_schemas: tuple[Version, ...] = ()
    status_changes: StatusChanges = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.new_schemas or self.status_changes)


class SyncPlanRefused(NamedTuple):
    """Why there is no way, and at which version it ends."""

    refusal: EventTypeRefusal
    version: Version | None = None


class RemovalPlan(NamedTuple):
    """What becomes of a type that is declared no more: gone, archived, or kept for a reason."""

    deletes: bool = False
    kept: EventTypeRefusal | None = None


def plan_sync(
    life: EventTypeLifecycle, declared: Iterable[DesiredVersion]
) -> SyncPlanRefused | SyncPlan:
    """The steps from how a type stands to how it is declared, or why there are none.

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
    """How a type goes that is declared no more."""
    if refuse_delete(life) is None:
        return RemovalPlan(deletes=True)
    return RemovalPlan(kept=refuse_archive(life))


def _changes(life: EventTypeLifecycle, wanted: DesiredVersion) -> EventTypeRefusal | StatusChanges:
    """What has to change for a version to become what is wanted of it."""
    status = life.versions.get(wanted.version)
    if status is None:
        return EventTypeRefusal.VERSION_NOT_FOUND
    if wanted.status is None or wanted.status is status:
        return {}
    if wanted.status is VersionStatus.CURRENT:
        return finalise(life, wanted.version)
    if wanted.status is VersionStatus.DEPRECATED:
        # From a draft at once: it is told to others as what was in force before.
        return {wanted.version: VersionStatus.DEPRECATED}
    return EventTypeRefusal.INVALID_STATUS


def _with(life: EventTypeLifecycle, changes: StatusChanges) -> EventTypeLifecycle:
    return replace(life, versions={**life.versions, **changes})
