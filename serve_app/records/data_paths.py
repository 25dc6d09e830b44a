"""Data paths over HTTP: which there are, whether one is valid, and where it leads."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Path, Query

from core.access.permissions import Permission
from core.records.collection import SYSTEM_FIELDS
from core.records.data_path import DataPath, InvalidDataPathError, parse_data_path
from core.records.field_tree import FieldNode, build_field_tree
from core.shared.errors import NotFoundError
from serve_app.http.field_errors import FieldError
from serve_app.http.problems import invalid_fields
from serve_app.http.router import Context, HttpRouter
from serve_app.records.data_path_models import (
    CollectionKey,
    FieldNodeView,
    FieldTreeQuery,
    FieldTreeView,
    PathResolutionRequest,
    PathResolutionView,
    PathStepView,
    PathValidationList,
    PathValidationRequest,
    PathValidationResult,
)
from services.records.collection_reader import ReachedCollections

router = HttpRouter("/control", tag="data paths", refuses=(404,))


@router.get("/collections/{id}/data-paths", needs=Permission.COLLECTIONS_READ)
async def show_data_paths(
    name: Annotated[CollectionKey, Path(alias="id")],
    query: Annotated[FieldTreeQuery, Query()],
    context: Context,
) -> FieldTreeView:
    """Show the fields that data paths from a collection can read, as a tree."""
    reached = await context.replica.paths.collections.around(context.tenant, name, query.depth)
    root = reached.root.definition
    tree = build_field_tree(root, reached.definitions, query.depth)
    return FieldTreeView(
        collection_id=reached.root.collection_id,
        collection=root.name,
        depth=query.depth,
        fields=[_node_view(node, reached) for node in tree.fields],
        system_fields=sorted(SYSTEM_FIELDS),
        is_truncated=tree.is_truncated or not reached.is_complete,
    )


@router.post(
    "/data-paths/validate",
    needs=Permission.COLLECTIONS_READ,
    answers={200: PathValidationResult | PathValidationList},
    logs=False,
)
async def validate_data_paths(
    body: PathValidationRequest, context: Context
) -> PathValidationResult | PathValidationList:
    """Validate a data path against the collections that it leads through.

    `expressions` validates up to 100 at once, and is answered by a list in `items`.
    """
    given = body.expressions or [body.expression or ""]
    validator = context.replica.paths.validator
    found = await validator.validate_all(context.tenant, body.root_collection_id, given)
    results = [PathValidationResult.of_path(*one) for one in zip(given, found, strict=True)]
    if body.expressions is None:
        return results[0]
    return PathValidationList(valid=all(one.valid for one in found), items=results)


@router.post("/data-paths/resolve", needs=Permission.RECORDS_READ, logs=False)
async def resolve_data_paths(body: PathResolutionRequest, context: Context) -> PathResolutionView:
    """Resolve data paths of a stored record, or of one that is sent along.

    Null keys and records that are missing or deleted resolve to null.
    """
    paths = read_paths(body.expressions)
    record = body.root if body.root is not None else {}
    resolver = context.replica.paths.resolver
    try:
        found = await resolver.trace(context.tenant, body.root_collection_id, paths, record)
    except InvalidDataPathError as error:
        raise invalid_fields(FieldError("expressions", str(error))) from None
    if not found.is_root_found:
        raise NotFoundError(f"record {body.record_id} of {body.root_collection_id}")
    steps = {
        path: [PathStepView(**step._asdict()) for step in steps]
        for path, steps in found.steps.items()
    }
    return PathResolutionView(values=found.values, provenance=steps if body.provenance else None)


def read_paths(expressions: Sequence[str]) -> list[DataPath]:
    """Parse paths; answer with all that are wrong, or have a script, which is not run here."""
    faults: list[FieldError] = []
    paths: list[DataPath] = []
    for number, expression in enumerate(expressions):
        field = f"expressions[{number}]"
        try:
            path = parse_data_path(expression)
        except InvalidDataPathError as error:
            faults.append(FieldError(field, str(error)))
            continue
        paths.append(path)
        if path.has_script:
            faults.append(FieldError(field, "a path without a script: scripts run in workflows"))
    if faults:
        raise invalid_fields(*faults)
    return paths


def _node_view(node: FieldNode, reached: ReachedCollections) -> FieldNodeView:
    target = None if node.target is None else reached.by_name.get(node.target)
    return FieldNodeView(
        name=node.name,
        type=node.type,
        is_relationship=node.type.is_relationship,
        target_collection_id=None if target is None else target.collection_id,
        target_collection=node.target,
        children=None
        if node.children is None
        else [_node_view(child, reached) for child in node.children],
    )
