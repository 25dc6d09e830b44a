"""What every noun does with its rows, declared once for each table."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

import asyncpg
import msgspec

from core.shared.refusal import Refusal
from core.shared.tenant_share import has_room
from storage.postgres import change_notifications
from storage.postgres.advisory_locks import AdvisoryLock
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

_TEMPLATES = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")

RowT = TypeVar("RowT")
NewT = TypeVar("NewT")
RefusalT = TypeVar("RefusalT", bound=Refusal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Generic[RowT, NewT, RefusalT]):
    """A table with rows of each tenant, and perhaps of the anchor, which all tenants can read.

    Rows are dataclasses whose fields are the columns. A row is named by its code or by its id. The
    queries are those of table.sql, such as read_pool; in the noun's own .sql file, which has its
    others, `{pool}` stands for `select … from` its table.
    """

    noun: str
    table: str
    row_type: type[RowT]
    new_type: type[NewT]
    key: str
    """The primary key, by which pages are ordered."""
    saved: tuple[str, ...]
    """The columns that change."""
    filters: Mapping[str, str]
    """The conditions of a listing, by the name of the parameter of each."""
    topic: ChangeTopic
    not_found: RefusalT
    not_own: RefusalT | None = None
    """Refuses to change a row of the anchor's; None if the anchor's rows are its own, too."""
    code: str = "code"
    """The column of the code."""
    documents: tuple[str, ...] = ()
    """The columns that hold JSON; their fields are of types that msgspec knows."""

    def __post_init__(self) -> None:
        columns = ", ".join(_column(name) for name in _names(self.row_type))
        new = _names(self.new_type)
        parts = {
            "code": self.code,
            "seen": "tenant_id = :tenant" if self.not_own is None else "tenant_id in (:tenant, 0)",
            "select": f"select {columns} from {self.table}",  # noqa: S608  declared names
            "columns": columns,
            "filters": " ".join(
                f"and ({sql} or :{name} is null)" for name, sql in self.filters.items()
            ),
            "new": ", ".join(new),
            "new_values": ", ".join(f":{name}" for name in new),
            "saved": ", ".join(f"{name} = :{name}" for name in self.saved),
        }
        Q.fill(self.noun, parts["select"])
        Q.add(_TEMPLATES.format(noun=self.noun, table=self.table, key=self.key, **parts))

    async def all(
        self, conn: Pool | Connection, query: str, *args: Any, **named: Any
    ) -> list[RowT]:
        """Run a query of rows, with arguments by place ($1) or by name (:code)."""
        found = await conn.fetch(Q[query], *(args or Q.arguments(query, named)))
        return [msgspec.convert(self._decoded(row), self.row_type) for row in found]

    async def first(
        self, conn: Pool | Connection, query: str, *args: Any, **named: Any
    ) -> RowT | None:
        return next(iter(await self.all(conn, query, *args, **named)), None)

    async def read(self, conn: Pool | Connection, tenant: int, name: str) -> RowT | None:
        """Read a row by its code or id: the tenant's own, else the anchor's."""
        return await self.first(conn, f"read_{self.noun}", tenant=tenant, name=name)

    async def lock(self, conn: Connection, tenant: int, name: str) -> RowT | None:
        """Lock one of the tenant's own rows until the transaction ends."""
        return await self.first(conn, f"lock_{self.noun}", tenant=tenant, name=name)

    async def page(
        self, pool: Pool, tenant: int, wanted: Any, after: int, limit: int
    ) -> list[RowT]:
        """Read the next rows that pass the filters; `wanted` is a NamedTuple of their values."""
        place = {"tenant": tenant, "after": after, "limit": limit}
        return await self.all(pool, f"list_{self.noun}s", **place, **wanted._asdict())

    async def count(self, pool: Pool, tenant: int, wanted: Any) -> int:
        query = f"count_{self.noun}s"
        values = Q.arguments(query, {"tenant": tenant, **wanted._asdict()})
        return int(await pool.fetchval(Q[query], *values))

    async def add(self, conn: Connection, tenant: int, new: NewT) -> RowT | None:
        """Create a row and notify listeners; None if the code exists."""
        values = self._encoded(values_of(new))
        made = await self.first(conn, f"create_{self.noun}", tenant=tenant, **values)
        await self._notify(conn, tenant)
        return made

    async def save(self, conn: Connection, row: RowT) -> RowT:
        """Store a locked row, and notify listeners."""
        values = self._encoded(values_of(row))
        (saved,) = await self.all(conn, f"save_{self.noun}", **values)
        await self._notify(conn, values["tenant"])
        return saved

    async def update(
        self,
        pool: Pool,
        tenant: int,
        name: str,
        step: Callable[[Connection, RowT], Awaitable[RefusalT | RowT]],
        *locks: Callable[[Connection], Awaitable[None]],
    ) -> RefusalT | RowT:
        """Lock one of the tenant's own rows, after other `locks`, and change it in one step."""
        async with pool.acquire() as conn, conn.transaction():
            for lock in locks:
                await lock(conn)
            current = await self.lock(conn, tenant, name)
            if current is not None:
                return await step(conn, current)
            is_seen = await self.read(conn, tenant, name) is not None
            return self.not_own if is_seen and self.not_own is not None else self.not_found

    async def _notify(self, conn: Connection, tenant: int) -> None:
        """Notify listeners; of rows that only their tenant sees, others need not know."""
        await change_notifications.notify(
            conn, self.topic, tenant if self.not_own is None else None
        )

    def _decoded(self, row: asyncpg.Record) -> dict[str, Any]:
        values = dict(row)
        for name in self.documents:
            values[name] = msgspec.json.decode(values[name])
        return values

    def _encoded(self, values: dict[str, Any]) -> dict[str, Any]:
        texts = {name: msgspec.json.encode(values[name]).decode() for name in self.documents}
        return values | texts


class CountLimit(Generic[RefusalT]):
    """A limit on what all tenants have together; a tenant gets half of it, the anchor all."""

    def __init__(self, counts: str, lock: AdvisoryLock, refusal: RefusalT) -> None:
        """Name the query that counts those of all tenants, and those of tenant $1."""
        self._counts, self._lock, self._refusal = counts, lock, refusal

    async def lock(self, conn: Connection) -> None:
        """Keep others from adding one until the transaction ends; goes before locking a row."""
        await conn.execute(Q["lock_until_commit"], self._lock)

    async def refuse_one_more(self, conn: Connection, tenant: int, limit: int) -> RefusalT | None:
        """Return why the tenant cannot have one more; the count must be locked."""
        (counts,) = await conn.fetch(Q[self._counts], tenant)
        return None if has_room(limit, *counts) else self._refusal


def _names(row_type: Any) -> list[str]:
    return [field.name for field in fields(row_type)]


def values_of(row: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name."""
    return {name: getattr(row, name) for name in _names(row)}


def _column(name: str) -> str:
    if name == "tenant":
        return "tenant_id as tenant"
    return f"extract(epoch from {name})::float8 as {name}" if name.endswith("_at") else name
