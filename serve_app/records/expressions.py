"""Expressions over HTTP: whether one is valid, and what its value is."""

from collections.abc import Iterable, Mapping
from typing import Any

from core.access.permissions import Permission
from core.expressions.compiler import NAMES, RECORD
from core.expressions.expression import CompiledExpression
from core.expressions.semantics import EvaluationError
from core.expressions.tree import InvalidExpressionError
from core.records.collection import SYSTEM_FIELDS, CollectionDefinition
from core.records.data_path import DataPath, DataPathSegment, parse_data_path
from core.records.path_validator import validate_data_path
from core.shared.errors import InvalidError, NotFoundError
from core.shared.timestamps import to_iso
from handlers.filters.expressions import compile_expression
from serve_app.http.router import Context, HttpRouter
from serve_app.records.expression_models import (
    EvaluationRequest,
    EvaluationView,
    ExpressionRequest,
    ExpressionView,
)

router = HttpRouter("/control/expressions", tag="expressions", refuses=(404,))


@router.post("/validate", needs=Permission.COLLECTIONS_READ, logs=False)
async def validate_expression(body: ExpressionRequest, context: Context) -> ExpressionView:
    """Validate an expression: its syntax, what it may cost, and the fields that it reads."""
    try:
        found = compile_expression(body.expression)
    except InvalidExpressionError as error:
        return ExpressionView(valid=False, error=str(error), position=error.at, fields=[], names=[])
    problem = None
    if body.collection_id is not None:
        stored = await context.replica.paths.collections.root(context.tenant, body.collection_id)
        problem = _unknown_field(found.fields, stored.definition)
    return ExpressionView(
        valid=problem is None,
        error=problem,
        fields=sorted(found.fields),
        names=sorted(found.names),
    )


@router.post("/evaluate", needs=Permission.RECORDS_READ, logs=False)
async def evaluate_expression(body: EvaluationRequest, context: Context) -> EvaluationView:
    """Evaluate an expression on a stored record, or on one that is sent along."""
    unknown = sorted(body.values.keys() - (NAMES - {RECORD}))
    if unknown:
        known = ", ".join(sorted(NAMES - {RECORD}))
        raise InvalidError(f"values.{unknown[0]}", f"one of {known}")
    try:
        compiled = compile_expression(body.expression)
    except InvalidExpressionError as error:
        raise InvalidError("expression", str(error)) from None
    record = await _record(body, compiled, context)
    now = to_iso(context.replica.client.clock.now())
    try:
        value = compiled.evaluate(record.get, {"now": now, **body.values, RECORD: record})
    except EvaluationError as error:
        raise InvalidError("expression", str(error)) from None
    return EvaluationView(value=value)


async def _record(
    body: EvaluationRequest, compiled: CompiledExpression, context: Context
) -> Mapping[str, Any]:
    """Return what the expression reads of the record; fields without a value are left out."""
    if body.record_id is None or body.collection_id is None:
        return body.record or {}
    stored = await context.replica.paths.collections.root(context.tenant, body.collection_id)
    problem = _unknown_field(compiled.fields, stored.definition)
    if problem is not None:
        raise InvalidError("expression", problem)
    is_whole = RECORD in compiled.names
    names = {*stored.definition.by_name, *SYSTEM_FIELDS} if is_whole else {"id", *compiled.fields}
    paths = [parse_data_path(name) for name in sorted(names)]
    resolver = context.replica.paths.resolver
    found = await resolver.trace(context.tenant, body.collection_id, paths, body.record_id)
    if not found.is_root_found:
        raise NotFoundError(f"record {body.record_id} of {body.collection_id}")
    return {name: value for name, value in found.values.items() if value is not None}


def _unknown_field(fields: Iterable[str], collection: CollectionDefinition) -> str | None:
    """Return what is wrong with the first field that the collection does not have."""
    known = {collection.name: collection}
    for name in sorted(fields):
        path = DataPath((DataPathSegment(name),))
        found = validate_data_path(path, collection.name, known)
        if not found.valid:
            return found.error_message
    return None
