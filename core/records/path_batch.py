"""Data paths of many records as one query: what is asked of the database, and what it answers.

A root is a record in memory, or the id of a record that the query begins with. Of a root in memory
the query begins with the records that it leads to, and of several roots that lead to the same
record, it follows one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import msgspec

from core.records.path_tree import ROOT, PathEdge, PathStep, PathTerminal, PathTree

Root: TypeAlias = Mapping[str, Any] | str
_NOWHERE = -1
"""Where a branch starts whose key is no text; no row has it."""


class PathPlan(msgspec.Struct, frozen=True, dict=True):
    """The paths that begin at one collection of a tenant."""

    tenant: int
    collection: str
    tree: PathTree
    numbers: Mapping[str, int]
    """The number of each collection in the database, by its name."""

    @cached_property
    def edge_to(self) -> Mapping[int, PathEdge]:
        return {edge.child: edge for edge in self.tree.edges}

    @cached_property
    def nodes(self) -> Mapping[int, tuple[int, ...]]:
        """Return the nodes on the way to each node, from the root to itself."""
        found: dict[int, tuple[int, ...]] = {ROOT: (ROOT,)}
        for edge in self.tree.edges:
            found[edge.child] = (*found[edge.node], edge.child)
        return found

    @cached_property
    def branch_of_terminals(self) -> Sequence[tuple[int, PathTerminal]]:
        """Return each terminal with the first node behind the root on its way."""
        return [
            (self.nodes[one.node][1] if one.node != ROOT else ROOT, one)
            for one in self.tree.terminals
        ]

    def collection_at(self, node: int) -> str:
        return self.collection if node == ROOT else self.edge_to[node].target


class PathStart(NamedTuple):
    """A record that the query begins with; `node` is where in the trees."""

    node: int
    tenant: int
    collection_no: int
    record_id: str


class NumberedEdge(NamedTuple):
    tenant: int
    node: int
    child: int
    field: str
    collection_no: int


class PathRow(NamedTuple):
    """A record that was found, and one of its values if a path ends there."""

    start: int
    node: int
    record_id: str
    version: int
    field: str | None
    value: Any


class _PlacedRoot(NamedTuple):
    """A root, the number of its tree's first node, and what each of its branches starts with."""

    plan: PathPlan
    first: int
    record: Mapping[str, Any] | None
    starts: Mapping[int, int]


class PathBatch:
    """What one query is asked for, in the order of the roots that were added."""

    def __init__(self) -> None:
        self.edges: list[NumberedEdge] = []
        self.terminals: list[tuple[int, str]] = []
        self._starts: dict[PathStart, int] = {}
        self._roots: list[_PlacedRoot] = []
        self._nodes = 0

    @property
    def starts(self) -> list[PathStart]:
        """Return what the query begins with; a row names it by its place here."""
        return list(self._starts)

    def add(self, plan: PathPlan, roots: Sequence[Root]) -> None:
        """Add roots of one collection; their paths are followed together with all others."""
        first, tree = self._nodes, plan.tree
        self._nodes += len(tree.edges) + 1
        self.edges += [
            NumberedEdge(
                plan.tenant, first + edge.node, first + edge.child, edge.field,
                plan.numbers[edge.target],
            )
            for edge in tree.edges
        ]  # fmt: skip
        ends = dict.fromkeys((one.node, one.field) for one in tree.terminals)
        self.terminals += [(first + node, field) for node, field in ends]
        own = plan.tenant, plan.numbers[plan.collection]
        branches = [
            (edge.field, edge.child, plan.numbers[edge.target])
            for edge in tree.edges
            if edge.node == ROOT
        ]
        known = self._starts
        for root in roots:
            if isinstance(root, str):
                start = PathStart(first, *own, root)
                starts = {ROOT: known.setdefault(start, len(known))}
                self._roots.append(_PlacedRoot(plan, first, None, starts))
                continue
            starts = {}
            for field, child, number in branches:
                key = root.get(field)
                if isinstance(key, str):
                    start = PathStart(first + child, plan.tenant, number, key)
                    starts[child] = known.setdefault(start, len(known))
            self._roots.append(_PlacedRoot(plan, first, root, starts))

    def values(self, rows: Iterable[PathRow]) -> list[dict[str, Any]]:
        """Return the values of each root by the text of their paths; what is missing is None."""
        found = {(row.start, row.node, row.field): row.value for row in rows}
        return [_values(root, found) for root in self._roots]

    def steps(self, rows: Iterable[PathRow]) -> list[dict[str, tuple[PathStep, ...]]]:
        """Return which records each path of each root came through, as far as it came."""
        found = {(row.start, row.node): (row.record_id, row.version) for row in rows}
        return [
            {
                one.expression: tuple(_steps(root, one.node, found))
                for one in root.plan.tree.terminals
            }
            for root in self._roots
        ]


def _values(root: _PlacedRoot, found: Mapping[tuple[int, int, str | None], Any]) -> dict[str, Any]:
    plan, first, record, starts = root
    if record is None:
        start = starts[ROOT]
        return {
            expression: found.get((start, first + node, field))
            for node, field, expression in plan.tree.terminals
        }
    values = {}
    for branch, (node, field, expression) in plan.branch_of_terminals:
        if node == ROOT:
            values[expression] = record.get(field) if field else record
        else:
            values[expression] = found.get((starts.get(branch, _NOWHERE), first + node, field))
    return values


def _steps(
    root: _PlacedRoot, end: int, found: Mapping[tuple[int, int], tuple[str, int]]
) -> Iterator[PathStep]:
    plan, first, record, starts = root
    way = plan.nodes[end] if record is None else plan.nodes[end][1:]
    for node in way:
        seen = found.get((starts.get(way[0], _NOWHERE), first + node))
        if seen is None:
            return
        yield PathStep(plan.collection_at(node), *seen)
