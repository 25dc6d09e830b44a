"""Brings the rows that an application declared to what it declares now: all of it, or nothing."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Protocol, TypeAlias, TypeVar

from core.shared.refusal import Refusal
from storage.postgres.pool import Connection, Pool


class HasCode(Protocol):
    """What an application declares."""

    @property
    def code(self) -> str: ...


DeclaredT = TypeVar("DeclaredT", bound=HasCode)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationOptions:
    """The application, and how its declaration is to be applied."""

    application: str
    remove: bool = False
    """Delete what is no longer declared."""
    is_dry_run: bool = False
    """Report what would change, and change nothing."""


class SyncOutcome(StrEnum):
    """What was done with one row."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REMOVED = "removed"
    ARCHIVED = "archived"


@dataclass(frozen=True, slots=True)
class SyncRefusal:
    """Why a row cannot be changed, and the part of it that prevents it, such as a version."""

    code: str
    refusal: Refusal
    part: object | None = None


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The codes by what was done with them; `kept` are rows in use, though no longer declared."""

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    archived: list[str] = field(default_factory=list)
    kept: list[SyncRefusal] = field(default_factory=list)

    @property
    def has_changes(self) -> bool:
        return bool(self.created or self.updated or self.removed or self.archived)

    def add(self, code: str, outcome: SyncOutcome | Refusal) -> None:
        if isinstance(outcome, Refusal):
            self.kept.append(SyncRefusal(code, outcome))
        else:
            getattr(self, outcome.value).append(code)


Synced: TypeAlias = SyncResult | SyncRefusal


class _RollbackError(Exception):
    """Rolls back the transaction of a dry run or of a refused declaration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciler(Generic[DeclaredT]):
    """What one kind of row does with a declaration, within one transaction."""

    lock: Callable[[Connection], Awaitable[object]]
    """Keeps other declarations away until the transaction ends."""
    apply: Callable[[Connection, DeclaredT], Awaitable[SyncOutcome | Refusal | SyncRefusal]]
    """Creates or updates one row."""
    remove: Callable[[Connection], AsyncIterator[tuple[str, SyncOutcome | Refusal]]]
    """Removes the rows that are no longer declared; those that are refused stay."""
    removes_first: bool = False
    """Whether what is no longer declared makes room for what is."""
    notify: Callable[[Connection], Awaitable[None]] | None = None

    async def run(
        self, pool: Pool, options: DeclarationOptions, declared: Sequence[DeclaredT]
    ) -> Synced:
        """Apply a declaration. A dry run or a refusal changes nothing."""
        result, refusal = SyncResult(), None
        with suppress(_RollbackError):
            async with pool.acquire() as conn, conn.transaction():
                await self.lock(conn)
                if options.remove and self.removes_first:
                    await self._remove(conn, result)
                refusal = await self._apply(conn, declared, result)
                if refusal is not None:
                    raise _RollbackError
                if options.remove and not self.removes_first:
                    await self._remove(conn, result)
                if options.is_dry_run:
                    raise _RollbackError
                if self.notify is not None and result.has_changes:
                    await self.notify(conn)
        return refusal or result

    async def _apply(
        self, conn: Connection, declared: Sequence[DeclaredT], result: SyncResult
    ) -> SyncRefusal | None:
        for one in declared:
            outcome = await self.apply(conn, one)
            if isinstance(outcome, SyncRefusal):
                return outcome
            if isinstance(outcome, Refusal):
                return SyncRefusal(one.code, outcome)
            result.add(one.code, outcome)
        return None

    async def _remove(self, conn: Connection, result: SyncResult) -> None:
        async for code, outcome in self.remove(conn):
            result.add(code, outcome)
