"""The fields that data paths from a collection can read, as a tree over its relationships."""

from collections.abc import Iterator

import msgspec

from core.records.collection import CollectionDefinition, Collections
from core.records.field import FieldType

DEFAULT_TREE_DEPTH = 2
MAX_TREE_DEPTH = 5
MAX_TREE_FIELDS = 2_000


class FieldNode(msgspec.Struct):
    """A field, and the fields of what it leads to as far as the tree goes."""

    name: str
    type: FieldType
    target: str | None = None
    """The collection that a relationship leads to."""
    children: list["FieldNode"] | None = None


class FieldTree(msgspec.Struct, frozen=True):
    fields: list[FieldNode]
    is_truncated: bool
    """Whether relationships were left closed because the tree has enough fields."""


def build_field_tree(root: CollectionDefinition, collections: Collections, depth: int) -> FieldTree:
    """Open the relationships of a collection level by level, `depth` levels in all."""
    fields = _nodes(root)
    level, count = fields, len(fields)
    for _ in range(depth - 1):
        below: list[FieldNode] = []
        for node, target in _open(level, collections):
            count += len(target.fields)
            if count > MAX_TREE_FIELDS:
                return FieldTree(fields, is_truncated=True)
            node.children = _nodes(target)
            below += node.children
        level = below
    return FieldTree(fields, is_truncated=False)


def _nodes(collection: CollectionDefinition) -> list[FieldNode]:
    return [
        FieldNode(one.name, one.type, one.target if one.type.is_relationship else None)
        for one in collection.fields
    ]


def _open(
    level: list[FieldNode], collections: Collections
) -> Iterator[tuple[FieldNode, CollectionDefinition]]:
    """Iterate over the relationships of a level and where they lead; a target may be gone."""
    for node in level:
        target = None if node.target is None else collections.get(node.target)
        if target is not None:
            yield node, target
