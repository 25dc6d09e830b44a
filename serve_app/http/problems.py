"""Errors as application/problem+json (RFC 9457); the core knows no status codes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from core.shared.errors import (
    ConflictError,
    Denial,
    DeniedError,
    InvalidError,
    MusterError,
    NotFoundError,
    OverloadedError,
    QuotaExceededError,
    TransientError,
    UnauthenticatedError,
)
from core.shared.quotas import PER_DAY, STORED, Quota
from core.shared.refusal import Refusal, RefusalReason
from core.waits.messages import RefusalKind, RefusedReply, Reply
from serve_app.http.field_errors import FieldError, field_errors_of
from serve_app.http.models import WireModel
from storage.postgres.error_class import SERVER_ERRORS, DataError, is_server_error
from storage.postgres.schema_check import SchemaMismatchError

MEDIA_TYPE = "application/problem+json"
REQUEST_ID = "muster.request_id"
_DENIED = frozenset({401, 403})
DATABASE_RETRY = 2

R = TypeVar("R", bound=Reply)

log = structlog.get_logger("problems")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem to answer with. `code` is for programs and stable; `detail` is for people."""

    status: int
    code: str
    detail: str
    field_errors: tuple[FieldError, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def document(self, request_id: str | None = None) -> dict[str, Any]:
        body: dict[str, Any] = {
            "type": f"urn:muster:problem:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            **self.extra,
        }
        if self.field_errors:
            body["errors"] = [field_error.document() for field_error in self.field_errors]
        if request_id is not None:
            body["requestId"] = request_id
        return body


class FieldErrorView(WireModel):
    """One invalid field."""

    field: str
    expected: str
    got: Any = None


class ProblemView(WireModel):
    """A problem document (RFC 9457)."""

    type: str = Field(examples=["urn:muster:problem:not_found"])
    title: str
    status: int
    detail: str
    code: str = Field(description="Stays the same over versions.")
    errors: list[FieldErrorView] | None = None
    correlation_id: str | None = Field(None, description="409: what is registered already.")
    quota: str | None = Field(None, description="Which quota of the tenant is used up.")
    limit: int | None = Field(None, description="That quota's limit.")
    request_id: str | None = Field(None, description="Finds the request in the log.")


class ProblemError(Exception):
    """An error of the HTTP layer that carries its problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


def problem_error(status: int, code: str, detail: str, **more: Any) -> ProblemError:
    return ProblemError(Problem(status=status, code=code, detail=detail, **more))


# The first match wins, so subclasses come before their base classes.
_KINDS: tuple[tuple[type[MusterError], int, str], ...] = (
    (NotFoundError, 404, "not_found"),
    (ConflictError, 409, "conflict"),
    (UnauthenticatedError, 401, "unauthenticated"),
    (DeniedError, 403, "forbidden"),
    (OverloadedError, 429, "overloaded"),
    (TransientError, 503, "unavailable"),
)
# Codes and sentences for the framework's errors.
_HTTP: dict[int, tuple[str, str]] = {
    404: ("not_found", "there is nothing at this path"),
    405: ("method_not_allowed", "this path does not take that method"),
}

INTERNAL = Problem(
    status=500, code="internal", detail="an internal error; the log has more under the request id"
)
# For values that passed the checks of fields and that Postgres cannot store.
UNSTORABLE = Problem(
    status=422,
    code="invalid",
    detail="a value of the request cannot be stored, such as a text with a NUL character",
)


def problem_of(error: Exception) -> Problem:
    match error:
        case ProblemError():
            return error.problem
        case InvalidError():
            field_error = FieldError(error.field, error.expected)
            return Problem(
                status=error.status, code="invalid", detail=str(error), field_errors=(field_error,)
            )
        case MusterError():
            return _of_kind(error)
        case RequestValidationError() | ValidationError():
            return invalid_request(field_errors_of(error.errors()))
        case HTTPException():
            return _of_http(error)
        case _:
            return _of_database(error) or INTERNAL


def _of_database(error: Exception) -> Problem | None:
    """Return the problem for an error of Postgres or its driver; None for other errors."""
    if isinstance(error, DataError):
        return UNSTORABLE
    if not (isinstance(error, SERVER_ERRORS) and is_server_error(error)):
        return None
    is_mismatch = isinstance(error, SchemaMismatchError)
    return Problem(
        status=503,
        code="unavailable",
        detail=str(error) if is_mismatch else "the database did not answer in time",
        headers={"Retry-After": str(DATABASE_RETRY)},
    )


def invalid_request(faults: Iterable[FieldError]) -> Problem:
    listed = tuple(faults)
    more = f" (and {len(listed) - 1} more)" if len(listed) > 1 else ""
    detail = f"{listed[0]}{more}" if listed else "the request is not valid"
    return Problem(status=422, code="invalid", detail=detail, field_errors=listed)


def invalid_fields(*errors: FieldError) -> ProblemError:
    return ProblemError(invalid_request(errors))


_STATUSES = {
    RefusalReason.NOT_FOUND: 404,
    RefusalReason.CONFLICT: 409,
    RefusalReason.FORBIDDEN: 403,
    RefusalReason.INVALID: 422,
    RefusalReason.STALE: 412,
}


def problem_of_refusal(refusal: Refusal, detail: str | None = None) -> Problem:
    """Return the answer to a request that is refused; `detail` replaces the sentence."""
    sentence = refusal.sentence if detail is None else detail
    return Problem(status=_STATUSES[refusal.reason], code=refusal.code, detail=sentence)


_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="muster"'}
_REFUSALS = {
    RefusalKind.UNKNOWN: (404, "not_found"),
    RefusalKind.CONFLICT: (409, "conflict"),
    RefusalKind.OVERLOADED: (429, "overloaded"),
    RefusalKind.FAILED: (503, "unavailable"),
    RefusalKind.FULL: (409, "log_full"),
    RefusalKind.BROKEN: (422, "invalid"),
    RefusalKind.TOKEN_EXPIRED: (401, "unauthenticated"),
}


def refusal_code_of(reply: RefusedReply) -> str:
    return _REFUSALS[reply.kind][1]


def refusal_error(reply: RefusedReply) -> ProblemError:
    status, code = _REFUSALS[reply.kind]
    headers = _CHALLENGE if status == 401 else {}
    if reply.is_transient:
        headers = {"Retry-After": "1"}
    extra = {"correlationId": reply.existing} if reply.existing else {}
    if reply.verdict is not None:
        extra["verdict"] = reply.verdict
    return problem_error(status, code, reply.detail, headers=headers, extra=extra)


def expect_reply(kind: type[R], reply: Reply) -> R:
    """Return a reply of this kind; raise ProblemError if the message was refused."""
    if isinstance(reply, kind):
        return reply
    if isinstance(reply, RefusedReply):
        raise refusal_error(reply)
    raise MusterError(f"a {type(reply).__name__} came in place of a {kind.__name__}")


def problem_response(problem: Problem, scope: Scope) -> Response:
    return Response(
        msgspec.json.encode(problem.document(scope.get(REQUEST_ID))),
        status_code=problem.status,
        headers=dict(problem.headers),
        media_type=MEDIA_TYPE,
    )


def install_handlers(app: FastAPI) -> None:
    """Answer every expected error with its problem; the middleware answers unexpected ones."""
    expected = (MusterError, ProblemError, RequestValidationError, HTTPException)
    for kind in (*expected, DataError, *SERVER_ERRORS):
        app.add_exception_handler(kind, _answer)


def note_denial(
    error: Exception, problem: Problem, scope: Scope, note: Callable[[Denial, str], None]
) -> None:
    """Pass a denied request to `note`; do nothing about other problems."""
    if problem.status in _DENIED:
        denial = error.denial if isinstance(error, DeniedError) else Denial("token_over")
        client = scope.get("client")
        note(denial, client[0] if client else "unknown")


async def _answer(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    note_denial(error, problem, request.scope, request.app.counters.denials.note)
    if problem.status >= 500:
        log.warning(
            "request.failed",
            status=problem.status,
            request=request.scope.get(REQUEST_ID),
            method=request.method,
            error=type(error).__name__,
        )
    if problem.status == 405:
        problem = replace(problem, headers={"Allow": ", ".join(_methods_at(request))})
    return problem_response(problem, request.scope)


def _methods_at(request: Request) -> list[str]:
    """Return every method of a path; the router stops at the first route, which has one method.

    Routes with fewer parameters in their path take precedence.
    """
    path = request.scope["path"]
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    found = [route for route in routes if route.path_regex.match(path)]
    fewest = min((len(route.param_convertors) for route in found), default=0)
    nearest = [route for route in found if len(route.param_convertors) == fewest]
    return sorted({method for route in nearest for method in route.methods or ()})


def _of_quota(error: QuotaExceededError) -> Problem:
    """Describe the exceeded quota: its limit, when there is room again and how to get more."""
    quota = Quota(error.quota)
    if quota in PER_DAY:
        status, frees = 429, "begins anew at midnight UTC"
    elif quota in STORED:
        status, frees = 507, "becomes free as rows pass their retention"
    else:
        status, frees = 409, "becomes free when some are removed"
    raised = f"`muster quotas set TENANT {quota} VALUE`, or MUSTER_{quota.setting.upper()} for all"
    return Problem(
        status=status,
        code="quota_exceeded",
        detail=f"{error}. It {frees}; an operator raises it by {raised}.",
        headers={} if error.retry_after is None else {"Retry-After": str(error.retry_after)},
        extra={"quota": quota.value, "limit": error.limit},
    )


def _of_kind(error: MusterError) -> Problem:
    if isinstance(error, QuotaExceededError):
        return _of_quota(error)
    found = next(((s, c) for kind, s, c in _KINDS if isinstance(error, kind)), None)
    if found is None:
        return INTERNAL
    status, code = found
    headers: dict[str, str] = {}
    if isinstance(error, TransientError):
        headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, UnauthenticatedError):
        headers |= _CHALLENGE
    return Problem(status=status, code=code, detail=str(error), headers=headers)


def _of_http(error: HTTPException) -> Problem:
    status = HTTPStatus(error.status_code)
    code, detail = _HTTP.get(status, (status.name.lower(), str(error.detail or status.phrase)))
    return Problem(status=status, code=code, detail=detail, headers=dict(error.headers or {}))
