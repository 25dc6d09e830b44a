"""Data paths of one collection as a prefix tree, so that what they share is followed once."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from core.records.collection import Collections
from core.records.data_path import DataPath, SegmentType

ROOT = 0


class PathEdge(NamedTuple):
    """From the records at `node` over a relationship to records of `target` at `child`."""

    node: int
    child: int
    field: str
    target: str


class PathTerminal(NamedTuple):
    """A field that is read of the records at `node`, and the paths that end there."""

    node: int
    field: str
    expression: str


class PathTree(NamedTuple):
    """Edges in the order in which they are followed: a node comes after its parent."""

    edges: tuple[PathEdge, ...]
    terminals: tuple[PathTerminal, ...]


class PathStep(NamedTuple):
    """A record that a path came through."""

    collection: str
    record_id: str
    version: int


FindRecord = Callable[[str, str], Mapping[str, Any] | None]
"""Return the record of a collection with an id, or None if there is none."""


def build_tree(paths: Iterable[DataPath], root: str, collections: Collections) -> PathTree:
    """Join valid paths that begin at the collection `root`.

    A path that goes through a script ends, for the tree, at the record that the script is given.
    """
    nodes: dict[tuple[str, ...], int] = {(): ROOT}
    at = {ROOT: root}
    edges: list[PathEdge] = []
    terminals: dict[PathTerminal, None] = {}
    for path in paths:
        way: tuple[str, ...] = ()
        for segment in path.relationships:
            node, way = nodes[way], (*way, segment.field_name)
            if way not in nodes:
                target = collections[at[node]].by_name[segment.field_name].target
                child = nodes[way] = len(nodes)
                at[child] = str(target)
                edges.append(PathEdge(node, child, segment.field_name, at[child]))
        last = path.segments[len(path.relationships)]
        field = last.field_name if last.type is SegmentType.FIELD else ""
        terminals[PathTerminal(nodes[way], field, str(path))] = None
    return PathTree(tuple(edges), tuple(terminals))


def resolve_paths(tree: PathTree, record: Mapping[str, Any], find: FindRecord) -> dict[str, Any]:
    """Resolve every path of a tree by its expression; what is missing on the way is None.

    Each record is looked up once. Where a script is next, the value is the record it is given.
    """
    found: dict[int, Mapping[str, Any] | None] = {ROOT: record}
    for edge in tree.edges:
        origin = found[edge.node]
        key = None if origin is None else origin.get(edge.field)
        found[edge.child] = find(edge.target, key) if isinstance(key, str) else None
    return {one.expression: _value(found[one.node], one.field) for one in tree.terminals}


def _value(record: Mapping[str, Any] | None, field: str) -> Any:
    if record is None:
        return None
    return record.get(field) if field else record
