"""A declarative router: an endpoint's signature says all that its route needs.

    @router.post("/{id}/suspend", needs=Permission.DISPATCH_WRITE, refuses=PoolRefusal)
    async def suspend_dispatch_pool(name: NamedPool, context: Context) -> PoolView:

The body is the parameter whose type is a request model, the answer is the view that is returned
(204 for None), and the operation id is the function's name in camelCase. Calls that change
something are logged. For hot paths see raw_route.py.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

import structlog
from fastapi import APIRouter, Request
from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from starlette.responses import Response
from starlette.routing import BaseRoute

from core.access.permissions import Permission
from core.shared.refusal import Refusal
from serve_app.container import Replica
from serve_app.http.auth import Caller
from serve_app.http.json_io import JsonResponse, parse_as, read_body
from serve_app.http.models import View
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.permissions import caller_of, replica_of, requires
from serve_app.http.problems import ProblemError, problem_of_refusal
from storage.postgres.pool import Pool

P = ParamSpec("P")
T = TypeVar("T")
Endpoint = TypeVar("Endpoint", bound=Callable[..., Awaitable[View | Response | None]])

log = structlog.get_logger("http")


class Context:
    """What an endpoint works with: the replica, the request and its caller."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.replica: Replica = replica_of(request)
        self.caller: Caller = caller_of(request)
        self.tenant: int = self.caller.tenant

    async def read(
        self,
        query: Callable[Concatenate[Pool, int, P], Awaitable[T]],
        *args: P.args,
        **kw: P.kwargs,
    ) -> T:
        """Run a query of the caller's tenant that may run twice."""
        return await self.replica.database.query(query, self.tenant, *args, **kw)

    async def list(
        self,
        query: Callable[Concatenate[Pool, int, P], Awaitable[T]],
        *args: P.args,
        **kw: P.kwargs,
    ) -> T:
        """Run a listing or a count, on the connections for listings."""
        return await self.replica.listings.query(query, self.tenant, *args, **kw)

    async def write(
        self,
        query: Callable[Concatenate[Pool, int, P], Awaitable[T | Refusal]],
        *args: P.args,
        **kw: P.kwargs,
    ) -> T:
        """Run a change once.

        Raises:
            ProblemError: The change was refused.
        """
        return unless_refused(
            await self.replica.database.query_once(query, self.tenant, *args, **kw)
        )

    def new_id(self, prefix: str) -> str:
        """Return a new id such as sub_0HZXEQ5Y8JY5Z."""
        return f"{prefix}_{self.replica.new_id()}"


def refuse(refusal: Refusal) -> NoReturn:
    """Answer the request with a refusal."""
    raise ProblemError(problem_of_refusal(refusal))


def unless_refused(result: T | Refusal) -> T:
    """Return the result of a change; answer the request if it is a refusal."""
    return refuse(result) if isinstance(result, Refusal) else result


class HttpRouter:
    """The routes of one kind of resource."""

    def __init__(
        self,
        prefix: str,
        *,
        tag: str | None = None,
        reads: Permission | None = None,
        writes: Permission | None = None,
        refuses: type[Refusal] | tuple[int, ...] = (),
    ) -> None:
        """Set the defaults for routes that name no permission and no refusals."""
        self._routes = APIRouter(prefix=prefix, tags=[] if tag is None else [tag])
        self._reads, self._writes, self._refuses = reads, writes, refuses

    @property
    def routes(self) -> list[BaseRoute]:
        """Return the routes as the app takes them."""
        return self._routes.routes

    def get(self, path: str = "", **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Add a route that reads; see `route`."""
        return self.route("GET", path, **options)

    def post(self, path: str = "", **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Add a route that creates or acts; see `route`."""
        return self.route("POST", path, **options)

    def put(self, path: str = "", **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Add a route that replaces; see `route`."""
        return self.route("PUT", path, **options)

    def patch(self, path: str = "", **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Add a route that changes; see `route`."""
        return self.route("PATCH", path, **options)

    def delete(self, path: str = "", **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Add a route that removes; see `route`."""
        return self.route("DELETE", path, **options)

    def route(  # noqa: PLR0913  each is a keyword of a declaration
        self,
        method: str,
        path: str,
        *,
        needs: Permission | None = None,
        refuses: type[Refusal] | tuple[int, ...] | None = None,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        logs: bool = True,
        **options: Any,
    ) -> Callable[[Endpoint], Endpoint]:
        """Add a route.

        `refuses` documents the problems that are the route's own: those of a refusal, or statuses.
        `responses`, of the options for FastAPI, adds what the signature does not say.
        """
        permission = needs or (self._reads if method == "GET" else self._writes)
        if permission is None:
            raise ValueError(f"{method} {path}: a route needs a permission")
        problems = _statuses(method, path, self._refuses if refuses is None else refuses)

        def add(endpoint: Endpoint) -> Endpoint:
            signature = inspect.signature(endpoint)
            answer = signature.return_annotation
            code = status or (204 if answer is None else 200)
            call = _Call(endpoint, signature, code, headers, logs=logs and method != "GET")
            is_view = isinstance(answer, type) and issubclass(answer, View)
            described = {code: answer} if is_view else {}
            self._routes.add_api_route(
                path,
                call.as_endpoint(),
                methods=[method],
                dependencies=[requires(permission)],
                operation_id=call.operation,
                status_code=code,
                responses=describe_responses(described, *problems) | options.pop("responses", {}),
                openapi_extra=None if call.body is None else json_body(call.body[1]),
                **options,
            )
            return endpoint

        return add


class _Call:
    """Calls one endpoint: reads its body, renders its answer, logs what it changed."""

    def __init__(
        self,
        endpoint: Callable[..., Any],
        signature: inspect.Signature,
        status: int,
        headers: Mapping[str, str] | None,
        *,
        logs: bool,
    ) -> None:
        self._endpoint = endpoint
        self._parameters = list(signature.parameters.values())
        self._status = status
        self._headers = headers
        self.operation = to_camel(endpoint.__name__)
        verb, _, noun = endpoint.__name__.partition("_")
        self._event = f"{noun}.{verb}" if logs else None
        self.body = _body_of(self._parameters)
        self._context = next(p.name for p in self._parameters if p.annotation is Context)

    def as_endpoint(self) -> Callable[..., Awaitable[Response]]:
        """Return a function that FastAPI calls with the request and the parameters."""

        @wraps(self._endpoint)
        async def handle(request: Request, **given: Any) -> Response:
            context = Context(request)
            arguments = given | {self._context: context}
            if self.body is not None:
                name, model = self.body
                raw = await read_body(request, context.replica.config.request_timeout)
                arguments[name] = parse_as(model, raw)
            answer = await self._endpoint(**arguments)
            if self._event is not None:
                by = {"tenant": context.tenant, "by": context.caller.prefix}
                log.info(self._event, **by, **(request.path_params | _code_of(answer)))
            return self._render(answer)

        # FastAPI reads this signature: the request, and the parameters that it finds in the URL.
        keyword = inspect.Parameter.KEYWORD_ONLY
        request = inspect.Parameter("request", keyword, annotation=Request)
        own = {self._context, None if self.body is None else self.body[0]}
        in_url = [p.replace(kind=keyword) for p in self._parameters if p.name not in own]
        signature = inspect.Signature([request, *in_url], return_annotation=Response)
        setattr(handle, "__signature__", signature)  # noqa: B010  mypy knows no such attribute
        return handle

    def _render(self, answer: View | Response | None) -> Response:
        if isinstance(answer, Response):
            return answer
        if answer is None:
            return Response(status_code=self._status)
        response = JsonResponse(answer.model_dump_json(by_alias=True).encode(), self._status)
        if self._headers:
            response.headers.update(self._headers)
        return response


def _body_of(parameters: Iterable[inspect.Parameter]) -> tuple[str, type[BaseModel]] | None:
    """Return the parameter whose annotation is a model; Annotated ones are FastAPI's."""
    for parameter in parameters:
        kind = parameter.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return parameter.name, kind
    return None


def _statuses(method: str, path: str, refuses: type[Refusal] | tuple[int, ...]) -> tuple[int, ...]:
    """Return a route's own problems: 404 where the path names a thing, 409 where it changes."""
    if isinstance(refuses, tuple):
        return refuses
    return (*((404,) if "{" in path else ()), *((409,) if method != "GET" else ()))


def _code_of(answer: object) -> dict[str, str]:
    code = getattr(answer, "code", None)
    return {"code": code} if isinstance(code, str) else {}
