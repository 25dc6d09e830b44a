import asyncio
import json
from typing import Any

import asyncpg
import pytest
from asyncpg.exceptions._base import DataError as ClientDataError
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from core.shared import errors
from core.waits.config import WaitConfig
from core.waits.messages import RefusalKind, RefusedReply, Verdict
from serve_app.http.problems import (
    INTERNAL,
    MEDIA_TYPE,
    REQUEST_ID,
    Problem,
    ProblemError,
    ProblemView,
    problem_of,
    problem_response,
    refusal_error,
)

TABLE: list[tuple[Exception, int, str]] = [
    (errors.InvalidError("limit", "at most 500"), 422, "invalid"),
    (errors.InvalidError("body", "JSON", 400), 400, "invalid"),
    (errors.NotFoundError("key x"), 404, "not_found"),
    (errors.ConflictError("ended"), 409, "conflict"),
    (errors.UnauthenticatedError("no key"), 401, "unauthenticated"),
    (errors.ForbiddenError("no"), 403, "forbidden"),
    (errors.DeniedError("no"), 403, "forbidden"),
    (errors.QuotaExceededError("bytesPerDay", 9, 60), 429, "quota_exceeded"),
    (errors.QuotaExceededError("storedBytes", 9, 60), 507, "quota_exceeded"),
    (errors.QuotaExceededError("keys", 9), 409, "quota_exceeded"),
    (errors.OverloadedError("full", 3), 429, "overloaded"),
    (errors.UnavailableError("away", 2), 503, "unavailable"),
    (errors.TransientError("later"), 503, "unavailable"),
    (errors.MusterError("surprise"), 500, "internal"),
    (HTTPException(404), 404, "not_found"),
    (HTTPException(405), 405, "method_not_allowed"),
    (HTTPException(418), 418, "im_a_teapot"),
    (RequestValidationError([]), 422, "invalid"),
    (OSError("refused"), 503, "unavailable"),
    (TimeoutError(), 503, "unavailable"),
    (asyncpg.AdminShutdownError("bye"), 503, "unavailable"),
    (asyncpg.InterfaceError("closed"), 503, "unavailable"),
    (KeyError("secret internals"), 500, "internal"),
]


@pytest.mark.parametrize(("error", "status", "code"), TABLE, ids=lambda value: repr(value)[:40])
def test_each_error_has_its_status_and_code(error: Exception, status: int, code: str) -> None:
    problem = problem_of(error)
    assert (problem.status, problem.code) == (status, code)
    ProblemView.model_validate_json(json.dumps(problem.document("r1")), strict=True)


def test_every_error_of_the_product_is_in_the_table() -> None:
    def kinds(root: type[Exception]) -> set[type[Exception]]:
        return {root}.union(*(kinds(child) for child in root.__subclasses__()))

    listed = {type(error) for error, _, _ in TABLE}
    of_the_tree = {
        kind for kind in kinds(errors.MusterError) if kind.__module__ == "core.shared.errors"
    }
    assert of_the_tree <= listed


@pytest.mark.parametrize(
    ("error", "retry_after"),
    [
        (errors.OverloadedError("full", 3), "3"),
        (errors.UnavailableError("away", 2), "2"),
        (errors.QuotaExceededError("storedRows", 5, 3_600), "3600"),
        (OSError(), "2"),
        (refusal_error(RefusedReply(kind=RefusalKind.OVERLOADED, detail="full")), "1"),
        (refusal_error(RefusedReply(kind=RefusalKind.FAILED, detail="not now")), "1"),
        (asyncpg.ReadOnlySQLTransactionError("a standby"), "2"),
        (asyncpg.UndefinedTableError("renamed"), "2"),
        (asyncpg.InsufficientPrivilegeError("revoked"), "2"),
        (asyncpg.InvalidPasswordError("rotated"), "2"),
        (asyncpg.TargetServerAttributeNotMatched("no writable server"), "2"),
    ],
)
def test_whoever_may_try_again_is_told_when(error: Exception, retry_after: str) -> None:
    assert problem_of(error).headers["Retry-After"] == retry_after


def test_a_quota_is_named_with_its_limit_and_how_to_raise_it() -> None:
    problem = problem_of(errors.QuotaExceededError("storedBytes", 1_000, 60))
    assert problem.extra == {"quota": "storedBytes", "limit": 1_000}
    assert "storedBytes, which is 1000" in problem.detail
    assert "muster quotas set TENANT storedBytes VALUE" in problem.detail
    assert "MUSTER_TENANT_STORED_BYTES" in problem.detail


def test_a_full_log_is_final_and_tells_the_verdict() -> None:
    full = RefusedReply(kind=RefusalKind.FULL, detail="no room", verdict=Verdict.LATE)
    problem = refusal_error(full).problem
    assert (problem.status, problem.code) == (409, "log_full")
    assert problem.extra == {"verdict": "late"}
    assert "Retry-After" not in problem.headers


def test_what_postgres_has_no_form_for_is_the_callers() -> None:
    problem = problem_of(asyncpg.CharacterNotInRepertoireError("invalid byte sequence: 0x00"))
    assert (problem.status, problem.code) == (422, "invalid")


def test_what_the_driver_cannot_encode_is_not_the_servers_trouble() -> None:
    assert problem_of(ClientDataError("int too big")) is INTERNAL


def test_a_missing_key_is_asked_for() -> None:
    problem = problem_of(errors.UnauthenticatedError("no key"))
    assert problem.headers["WWW-Authenticate"].startswith("Bearer")


def test_internals_stay_inside() -> None:
    assert problem_of(KeyError("secret internals")) is INTERNAL
    assert problem_of(errors.MusterError("secret internals")) is INTERNAL


def test_a_cancelled_request_is_no_problem_of_ours() -> None:
    assert not isinstance(asyncio.CancelledError(), Exception)


def test_an_answer_is_problem_json_with_the_request_id() -> None:
    problem = Problem(status=409, code="conflict", detail="it waits", extra={"correlationId": "c"})
    response = problem_response(problem, {"type": "http", REQUEST_ID: "r1"})
    assert response.media_type == MEDIA_TYPE
    assert json.loads(bytes(response.body)) == {
        "type": "urn:muster:problem:conflict",
        "title": "Conflict",
        "status": 409,
        "detail": "it waits",
        "code": "conflict",
        "correlationId": "c",
        "requestId": "r1",
    }


@pytest.mark.parametrize("kind", list(RefusalKind))
def test_every_refusal_of_an_actor_has_an_answer(kind: RefusalKind) -> None:
    problem = refusal_error(RefusedReply(kind=kind, detail="no", existing="c")).problem
    assert problem.status in {401, 404, 409, 422, 429, 503}
    assert problem.extra == {"correlationId": "c"}


def configuration_problem(data: dict[str, Any]) -> Problem:
    with pytest.raises(ValidationError) as invalid:
        WaitConfig.model_validate(data)
    return problem_of(invalid.value)


def test_unknown_fields_are_named_where_they_stand() -> None:
    problem = configuration_problem({"apiCall": {"url": "u", "colour": 1}, "shape": 2})
    assert [fault.field for fault in problem.field_errors] == ["apiCall.colour", "shape"]
    assert problem.detail == "apiCall.colour: a field that exists; this one is unknown (and 1 more)"


def test_a_value_out_of_range_is_told_with_what_was_expected() -> None:
    (fault,) = configuration_problem({"timeout": -1}).field_errors
    assert fault.document() == {"field": "timeout", "expected": "greater than 0", "got": -1}


def test_a_problem_keeps_its_shape_when_it_is_raised() -> None:
    problem = Problem(status=413, code="too_large", detail="x")
    assert problem_of(ProblemError(problem)) is problem
