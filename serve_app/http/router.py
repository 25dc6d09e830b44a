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
from typing import Any, NoReturn, ParamSpec, TypeVar

import structlog
from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from starlette.responses import Response
from starlette.routing import BaseRoute

from core.access.permissions import Permission
from core.shared.errors import NotFoundError
from core.shared.refusal import Refusal
from serve_app.container import Replica
from serve_app.http.auth import Caller
from serve_app.http.json_io import JsonResponse, parse_as, read_body
from serve_app.http.models import View
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.permissions import caller_of, replica_of, requires, requires_or_token
from serve_app.http.problems import ProblemError, problem_of_refusal
from serve_app.http.raw_route import RawRoute
from services.shared.database import TenantQuery

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
        self.body = b""
        """The bytes of the body, where the endpoint takes a request model."""

    async def read(self, query: TenantQuery[P, T], *args: P.args, **kw: P.kwargs) -> T:
        """Run a query of the caller's tenant that may run twice."""
        return await self.replica.database.query(query, self.tenant, *args, **kw)

    async def list(self, query: TenantQuery[P, T], *args: P.args, **kw: P.kwargs) -> T:
        """Run a listing or a count, on the connections for listings."""
        return await self.replica.listings.query(query, self.tenant, *args, **kw)

    async def write(self, query: TenantQuery[P, T | Refusal], *args: P.args, **kw: P.kwargs) -> T:
        """Run a change once; answer the request if the change is refused."""
        done = await self.replica.database.query_once(query, self.tenant, *args, **kw)
        return unless_refused(done)

    def new_id(self, prefix: str) -> str:
        """Return a new id such as sub_0HZXEQ5Y8JY5Z."""
        return f"{prefix}_{self.replica.new_id()}"


def refuse(refusal: Refusal) -> NoReturn:
    raise ProblemError(problem_of_refusal(refusal))


def unless_refused(result: T | Refusal) -> T:
    """Return the result of a change; answer the request if it is a refusal."""
    return refuse(result) if isinstance(result, Refusal) else result


def unless_missing(found: T | None, what: str) -> T:
    """Return what was found; answer 404 if it is None, False or empty."""
    if not found:
        raise NotFoundError(what)
    return found


class HttpRouter:
    """The routes of one kind of resource."""

    def __init__(
        self,
        prefix: str,
        *,
        tag: str | None = None,
        access: str | None = None,
        reads: Permission | None = None,
        writes: Permission | None = None,
        refuses: type[Refusal] | tuple[int, ...] = (),
    ) -> None:
        """Set the defaults for routes that name no permission and no refusals.

        `access="dispatch"` stands for the permissions `dispatch:read` and `dispatch:write`.
        """
        if access is not None:
            reads, writes = Permission(f"{access}:read"), Permission(f"{access}:write")
        self._routes = APIRouter(prefix=prefix, tags=[] if tag is None else [tag])
        self._reads, self._writes, self._refuses = reads, writes, refuses

    @property
    def routes(self) -> list[BaseRoute]:
        return self._routes.routes

    def get(self, path: str = "", **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("GET", path, **options)

    def post(self, path: str = "", **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("POST", path, **options)

    def put(self, path: str = "", **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("PUT", path, **options)

    def patch(self, path: str = "", **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("PATCH", path, **options)

    def delete(self, path: str = "", **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self.route("DELETE", path, **options)

    def route(  # noqa: PLR0913  each is a keyword of a declaration
        self,
        method: str,
        path: str,
        *,
        needs: Permission | None = None,
        refuses: type[Refusal] | tuple[int, ...] | None = None,
        status: int | None = None,
        answers: Mapping[int, type[View]] | None = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        raw: dict[str, Any] | None = None,
        logs: bool = True,
        **options: Any,
    ) -> Callable[[Endpoint], Endpoint]:
        """Add a route.

        `refuses` documents the problems that are the route's own: those of a refusal, or statuses.
        `answers` documents the views of an endpoint that returns a response. `token` is the purpose
        of signed URLs that the route takes in place of a key. `raw` describes the request of an
        endpoint on a hot path, which gets the request alone (see raw_route.py).
        `responses`, of the options for FastAPI, adds what the signature does not say.
        """
        permission = needs or (self._reads if method == "GET" else self._writes)
        if permission is None:
            raise ValueError(f"{method} {path}: a route needs a permission")
        guard = requires(permission) if token is None else requires_or_token(permission, token)
        problems = _statuses(method, path, self._refuses if refuses is None else refuses)

        def add(endpoint: Endpoint) -> Endpoint:
            signature = inspect.signature(endpoint)
            answer = signature.return_annotation
            code = status or (204 if answer is None else 200)
            is_view = isinstance(answer, type) and issubclass(answer, View)
            described = answers or ({code: answer} if is_view else {})
            declared = options | {
                "methods": [method],
                "dependencies": [guard],
                "operation_id": to_camel(endpoint.__name__),
                "status_code": code,
                "responses": describe_responses(described, *problems)
                | options.get("responses", {}),
            }
            add_route = self._routes.add_api_route
            if raw is not None:
                add_route(
                    path, endpoint, openapi_extra=raw, route_class_override=RawRoute, **declared
                )
                return endpoint
            call = _Call(endpoint, signature, code, headers, logs=logs and method != "GET")
            body = None if call.body is None else json_body(call.body[1])
            add_route(path, call.as_endpoint(), openapi_extra=body, **declared)
            return endpoint

        return add


def alias_routes(router: APIRouter | HttpRouter, address: str, other: str) -> APIRouter:
    """Copy every route with another prefix of its path; the OpenAPI document does not repeat it."""
    copies = APIRouter()
    for route in router.routes:
        if isinstance(route, APIRoute):
            copies.add_api_route(
                other + route.path.removeprefix(address),
                route.endpoint,
                methods=sorted(route.methods or ()),
                dependencies=route.dependencies,
                status_code=route.status_code,
                include_in_schema=False,
            )
    return copies


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
                timeout_seconds = context.replica.config.request_timeout
                context.body = await read_body(request, timeout_seconds)
                arguments[name] = parse_as(model, context.body)
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
        headers = {**(self._headers or {}), **answer.response_headers()}
        return JsonResponse(answer.to_json(), self._status, headers)


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
