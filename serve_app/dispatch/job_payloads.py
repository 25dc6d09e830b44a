"""Payloads of posted jobs, held against the schemas that the jobs name."""

import asyncio
from collections.abc import Iterable

from core.shared.errors import InvalidError, UnavailableError
from handlers.schemas.interface import CompiledSchema, InvalidSchema, within
from serve_app.container import Replica
from serve_app.http.field_errors import FieldError
from serve_app.http.problems import Problem, ProblemError
from storage.events import schemas


async def check_payloads(
    replica: Replica, tenant: int, payloads: Iterable[tuple[str, bytes, str, str]]
) -> None:
    """Let pass payloads that are what their schemas say: id, payload, media type, and where.

    Raises:
        InvalidError: There is no such schema, or it cannot be used.
        ProblemError: A payload does not fit.
        UnavailableError: It could not be told in time.
    """
    limit = asyncio.timeout(replica.config.request_timeout)
    try:
        async with limit:
            await _check(replica, tenant, payloads)
    except TimeoutError:
        if not limit.expired():
            raise
        detail = "the payloads were not held against their schemas in time; none was stored"
        raise UnavailableError(detail, 2) from None


async def _check(
    replica: Replica, tenant: int, payloads: Iterable[tuple[str, bytes, str, str]]
) -> None:
    known: dict[str, CompiledSchema] = {}
    for schema_id, payload, content_type, where in payloads:
        if schema_id not in known:
            known[schema_id] = await _compiled(replica, tenant, schema_id, f"{where}schemaId")
        checks = replica.event_validator.checks
        found = await checks.check(tenant, known[schema_id], payload, content_type)
        if found:
            root = f"{where}payload"
            faults = tuple(FieldError(within(root, one.path), one.expected) for one in found)
            detail = f"{root} is not what schema {schema_id} says: {faults[0]}"
            raise ProblemError(
                Problem(status=422, code="schema_mismatch", detail=detail, field_errors=faults)
            )


async def _compiled(replica: Replica, tenant: int, schema_id: str, field: str) -> CompiledSchema:
    found = await replica.database.query(schemas.read, tenant, schema_id)
    if found is None or found.content is None:
        raise InvalidError(field, "a schema that exists")
    outcome = await replica.event_validator.checks.compile(tenant, found.schema_type, found.content)
    if isinstance(outcome, InvalidSchema):
        raise InvalidError(field, outcome.reason)
    return outcome
