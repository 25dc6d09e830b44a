"""Permissions of routes: a route names one, or is on a short public list."""

from typing import Annotated

from fastapi import Path, Request
from fastapi.params import Depends

from core.access.permissions import Permission
from core.access.tokens import CALLBACK
from core.shared.address import Address, check_id
from core.shared.errors import Denial, ForbiddenError, NotFoundError
from serve_app.container import Replica
from serve_app.http.auth import Caller
from serve_app.http.json_io import headers_of
from serve_app.limits.load_limiter import REQUEST_SLOT, RequestSlot
from serve_app.limits.middleware import SLASH

CALLER = "muster.caller"
# A POST with one of these permissions counts against the tenant's quotas.
_STORING = frozenset(
    {
        Permission.CALLBACKS_WRITE,
        Permission.EVENTS_WRITE,
        Permission.GATHERS_WRITE,
        Permission.WAITS_WRITE,
    }
)
TOKEN_HEADER = "x-callback-token"  # noqa: S105  a header's name
TOKEN_PARAMETER = "token"  # noqa: S105  a parameter's name


class Requires:
    """Lets a request pass if its key has the permission."""

    def __init__(self, permission: Permission) -> None:
        self.permission = permission
        self.stores = permission in _STORING

    async def __call__(self, request: Request) -> None:
        """Identify the caller; routes find it by `caller_of`."""
        replica = replica_of(request)
        caller = await replica.keys.caller(headers_of(request).get("authorization"))
        if self.permission not in caller.permissions:
            detail = f"this API key lacks the permission {self.permission}"
            raise ForbiddenError(detail, Denial("permission", caller.prefix, caller.tenant))
        self._let_in(request, replica, caller)

    def _let_in(self, request: Request, replica: Replica, caller: Caller) -> None:
        if self.stores and request.scope["method"] == "POST":
            replica.quotas.check(caller.tenant)
        request.scope[CALLER] = caller
        # From now on the request counts among those of its tenant.
        request.scope[REQUEST_SLOT].assign_tenant(caller.tenant)


class RequiresOrToken(Requires):
    """Lets a request pass if its key has the permission or its URL has a signed token."""

    def __init__(self, permission: Permission, purpose: str) -> None:
        super().__init__(permission)
        self.purpose = purpose

    async def __call__(self, request: Request) -> None:
        """Identify the caller by the token; by the key only if there is no token."""
        token = _token_in(request)
        if token is None:
            await super().__call__(request)
            return
        replica = replica_of(request)
        now = replica.client.clock.now()
        caller = await replica.tokens[self.purpose].caller(token, now)
        self._let_in(request, replica, caller)


def requires(permission: Permission) -> Depends:
    return Depends(Requires(permission))


def requires_or_token(permission: Permission, purpose: str = CALLBACK) -> Depends:
    """Make a dependency of a route that is also called through signed URLs."""
    return Depends(RequiresOrToken(permission, purpose))


def replica_of(request: Request) -> Replica:
    replica: Replica = request.scope["app"].replica
    return replica


def caller_of(request: Request) -> Caller:
    caller: Caller = request.scope[CALLER]
    return caller


def request_slot_of(request: Request) -> RequestSlot:
    request_slot: RequestSlot = request.scope[REQUEST_SLOT]
    return request_slot


def address_from_path(
    request: Request,
    execution_id: Annotated[str, Path(alias="executionId")],
    correlation_id: Annotated[str, Path(alias="correlationId")],
) -> Address:
    execution, correlation = (
        check_id(part.replace(SLASH, "/")) for part in (execution_id, correlation_id)
    )
    if execution is None or correlation is None:
        raise NotFoundError("a wait state with such ids")
    return Address(caller_of(request).tenant, execution, correlation)


def _token_in(request: Request) -> str | None:
    token = headers_of(request).get(TOKEN_HEADER)
    if token is None and request.scope["query_string"]:
        token = request.query_params.get(TOKEN_PARAMETER)
    return token


WaitAddress = Annotated[Address, Depends(address_from_path)]
