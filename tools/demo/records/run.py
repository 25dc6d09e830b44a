"""Plays a record scenario: writes records, and reads what became of them."""

import secrets
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from cli.shell.client import Client, Document
from cli.shell.parsing import join_path
from cli.shell.problems import ProblemResponseError
from tools.demo.runner import ScriptedRun
from tools.demo.scenario import ScriptedScenario
from tools.demo.screen import ScenarioPanel

_COLLECTIONS = "/control/collections"
_FIELDS: list[dict[str, Any]] = [
    {"name": "customer", "type": "STRING", "required": True, "max": 100},
    {"name": "code", "type": "EXTERNAL_ID", "unique": True},
    {"name": "status", "type": "PICKLIST", "values": ["open", "paid"], "default": "open"},
    {"name": "total", "type": "CURRENCY", "min": 0, "indexed": True},
    {"name": "pieces", "type": "INTEGER", "default": 1},
    {"name": "price", "type": "FORMULA", "formula": "total / pieces"},
    {"name": "number", "type": "AUTO_NUMBER", "format": "O-{0000}"},
]


@dataclass(frozen=True, slots=True)
class RecordDemo:
    """The instance, and the two collections of this run."""

    muster: Client
    orders: str
    lines: str


@asynccontextmanager
async def demo_collections(muster: Client) -> AsyncIterator[RecordDemo]:
    """Define orders and their lines, and archive both at the end."""
    mark = secrets.token_hex(3)
    orders, lines = f"demo-orders-{mark}", f"demo-lines-{mark}"
    master = {"name": "order", "type": "MASTER_DETAIL", "target": orders, "required": True}
    await muster.post(_COLLECTIONS, {"name": orders, "fields": _FIELDS})
    await muster.post(_COLLECTIONS, {"name": lines, "fields": [master]})
    try:
        yield RecordDemo(muster, orders, lines)
    finally:
        for name in (lines, orders):
            await muster.delete(join_path(_COLLECTIONS, name))


class RecordRun(ScriptedRun):
    """One scenario while it runs: what its script can do."""

    def __init__(
        self, demo: RecordDemo, scenario: "ScriptedScenario[RecordRun]", position: str
    ) -> None:
        super().__init__(scenario, ScenarioPanel(scenario, position))
        self.muster, self._demo = demo.muster, demo

    def path(self, *rest: str, of_lines: bool = False) -> str:
        name = self._demo.lines if of_lines else self._demo.orders
        return join_path("/api/collections", name, "records", *rest)

    async def create(self, **fields: Any) -> Any:
        made = await self.muster.post(self.path(), fields)
        self.panel.note("taken", f"POST {_brief(fields)} → version {made['version']}")
        return made

    async def change(self, record_id: str, version: int | None = None, **fields: Any) -> Any:
        headers = None if version is None else {"If-Match": f'"{version}"'}
        changed = await self.muster.patch(self.path(record_id), fields, headers)
        self.panel.note("taken", f"PATCH {_brief(fields)} → version {changed['version']}")
        return changed

    async def refused(self, request: Awaitable[Any]) -> Document:
        """Return the problem of a request that has to be refused."""
        try:
            await request
        except ProblemResponseError as problem:
            self.panel.note("refused", problem.sentence)
            return {"status": problem.status, "sentence": problem.sentence}
        return {"status": 200, "sentence": "it was saved"}

    async def list(self, params: Document, *, of_lines: bool = False) -> list[Document]:
        """Read all pages of a listing."""
        found: list[Document] = []
        cursor: str | None = None
        while True:
            query = {**params, "cursor": cursor}
            page = await self.muster.get(self.path(of_lines=of_lines), query)
            found += page["items"]
            cursor = page["nextCursor"]
            if cursor is None:
                return found


def _brief(fields: Document) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields.items())
