"""API keys of the caller's tenant."""

import math
import secrets
from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.shared.denial import Denial
from core.shared.errors import (
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnauthenticatedError,
)
from core.shared.quotas import Quota
from core.shared.timestamps import to_iso
from serve_app.container import Replica
from serve_app.http.auth import Caller
from serve_app.http.json_io import json_response, parse_as, read_body
from serve_app.http.models import Document
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.permissions import caller_of, replica_of, requires
from serve_app.http.raw_route import RawRoute
from serve_app.operations.models import KeyCreated, KeyList
from serve_app.waits.rendering import key_document
from serve_app.waits.request_models import KeyRequest
from storage.access import keys
from storage.access.keys import ChildKey, NewKey

log = structlog.get_logger("keys")

raw_router = APIRouter(route_class=RawRoute, tags=["keys"])
router = APIRouter(tags=["keys"])


@router.get(
    "/api/keys",
    dependencies=[requires(Permission.KEYS_WRITE)],
    operation_id="listKeys",
    responses=describe_responses({200: KeyList}),
)
async def list_keys(request: Request) -> Response:
    """List the tenant's keys, newest first, without their secrets."""
    replica = replica_of(request)
    rows = await replica.listings.query(keys.list_keys, caller_of(request).tenant)
    return json_response({"items": [key_document(row) for row in rows]})


@raw_router.post(
    "/api/keys",
    dependencies=[requires(Permission.KEYS_WRITE)],
    operation_id="createKey",
    status_code=201,
    responses=describe_responses({201: KeyCreated}, 409),
    openapi_extra=json_body(KeyRequest),
)
async def create_key(request: Request) -> Response:
    """Create a key. It is shown this once and stored as a hash only.

    It allows no more than the key that makes it, ends with that one at the latest, and is revoked
    with it.
    """
    replica, caller = replica_of(request), caller_of(request)
    body = parse_as(KeyRequest, await read_body(request, replica.config.request_timeout))
    lacking = sorted(set(body.permissions) - caller.permissions)
    if lacking:
        detail = f"this API key cannot give what it lacks: {', '.join(lacking)}"
        raise ForbiddenError(detail, Denial("permission", caller.prefix, caller.tenant))
    await replica.count_quotas.check(caller.tenant, Quota.KEYS)
    new = NewKey(
        tenant=caller.tenant,
        name=body.name,
        prefix=secrets.token_hex(6),
        secret=secrets.token_urlsafe(32),
        permissions=tuple(dict.fromkeys(body.permissions)),
        lifetime=body.expires_in_seconds,
    )
    await _check_lifetime(replica, caller, body.expires_in_seconds)
    child = await replica.database.query_once(keys.create_child_key, new, caller.prefix)
    if child is None:
        replica.keys.forget(caller.prefix)
        raise UnauthenticatedError("this API key ended while it was making another")
    log.info("key.created", tenant=new.tenant, prefix=new.prefix, by=caller.prefix)
    return json_response(_created(child, new, caller.prefix), 201)


@router.delete(
    "/api/keys/{prefix}",
    dependencies=[requires(Permission.KEYS_WRITE)],
    operation_id="revokeKey",
    status_code=204,
    responses=describe_responses({}, 404),
)
async def revoke_key(
    request: Request, prefix: Annotated[str, Path(pattern="^[A-Za-z0-9-]{1,64}$")]
) -> Response:
    """Revoke a key and all keys that it made; within ten seconds no replica accepts them."""
    replica, caller = replica_of(request), caller_of(request)
    revoked = await replica.database.query_once(
        keys.revoke_key, caller.tenant, prefix, caller.prefix
    )
    if not revoked:
        raise NotFoundError(f"key {prefix}")
    for each in revoked:
        replica.keys.forget(each)
        log.info("key.revoked", tenant=caller.tenant, prefix=each, of=prefix, by=caller.prefix)
    return Response(status_code=204)


async def _check_lifetime(replica: Replica, caller: Caller, wanted: float | None) -> None:
    """A key that is to live longer than its maker is refused, not quietly shortened."""
    if wanted is None:
        return
    maker = await replica.database.query(keys.find_key, caller.prefix)
    if maker is not None and maker.lives is not None and wanted > maker.lives:
        raise InvalidError(
            "expiresInSeconds",
            f"at most {math.floor(maker.lives)}: the key that makes it ends then; "
            "leave it out to end together",
        )


def _created(child: ChildKey, new: NewKey, maker: str) -> Document:
    document: Document = {
        "key": child.key,
        "prefix": new.prefix,
        "name": new.name,
        "permissions": new.permissions,
        "createdBy": maker,
    }
    if child.expires_at is not None:
        document["expiresAt"] = to_iso(child.expires_at)
    return document
