"""An event type as an application declares it: which steps lead there from how it stands."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from core.events.event_type import (
    Changes,
    Life,
    Refusal,
    TypeStatus,
    Version,
    VersionStatus,
    finalise,
    refuse_archive,
    refuse_delete,
    refuse_rewrite,
    refuse_version,
)


class Declared(NamedTuple):
    """A version as it is to be. Without a status it stays as far as it is."""

    version: Version
    is_other: bool
    """Its schema is not the one that is kept, or none is."""
    status: VersionStatus | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """What is to be done: schemas to keep, then statuses to set."""

    puts: tuple[Version, ...] = ()
    moves: Changes = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.puts or self.moves)


class Refused(NamedTuple):
    """Why there is no way, and at which version it ends."""

    refusal: Refusal
    version: Version | None = None


class Removal(NamedTuple):
    """What becomes of a type that is declared no more: gone, archived, or kept for a reason."""

    drops: bool = False
    kept: Refusal | None = None


def plan(life: Life, declared: Iterable[Declared]) -> Refused | Steps:
    """The steps from how a type stands to how it is declared, or why there are none.

    Versions that are not declared stay.
    """
    if life.status is TypeStatus.ARCHIVED:
        return Refused(Refusal.ALREADY_ARCHIVED)
    puts: list[Version] = []
    moves: dict[Version, VersionStatus] = {}
    for one in sorted(declared, key=lambda one: one.version):
        if one.is_other:
            known = one.version in life.versions
            refusal = (refuse_rewrite if known else refuse_version)(life, one.version)
            if refusal is not None:
                return Refused(refusal, one.version)
            puts.append(one.version)
            life = _with(life, {one.version: VersionStatus.FINALISING})
        changes = _changes(life, one)
        if isinstance(changes, Refusal):
            return Refused(changes, one.version)
        moves.update(changes)
        life = _with(life, changes)
    return Steps(tuple(puts), moves)


def remove(life: Life) -> Removal:
    """How a type goes that is declared no more."""
    if refuse_delete(life) is None:
        return Removal(drops=True)
    return Removal(kept=refuse_archive(life))


def _changes(life: Life, wanted: Declared) -> Refusal | Changes:
    """What has to change for a version to become what is wanted of it."""
    status = life.versions.get(wanted.version)
    if status is None:
        return Refusal.VERSION_NOT_FOUND
    if wanted.status is None or wanted.status is status:
        return {}
    if wanted.status is VersionStatus.CURRENT:
        return finalise(life, wanted.version)
    if wanted.status is VersionStatus.DEPRECATED:
        # From a draft at once: it is told to others as what was in force before.
        return {wanted.version: VersionStatus.DEPRECATED}
    return Refusal.INVALID_STATUS


def _with(life: Life, changes: Changes) -> Life:
    return replace(life, versions={**life.versions, **changes})
