"""API keys of the caller's tenant."""

import math
import secrets
from typing import Annotated

from fastapi import Path
from pydantic import Field

from core.access.permissions import Permission
from core.shared.errors import Denial, ForbiddenError, InvalidError, UnauthenticatedError
from core.shared.quotas import Quota
from serve_app.http.fields import DisplayName, IsoTime, optional
from serve_app.http.models import View, WireModel
from serve_app.http.page import Page
from serve_app.http.router import Context, HttpRouter, unless_missing
from storage.access import keys
from storage.access.keys import NewKey

_TEN_YEARS = 10 * 365 * 86_400.0
_CREATED_BY = "Prefix of the key that made it."
router = HttpRouter("/api/keys", tag="keys")


class KeyRequest(WireModel):
    """An API key to create."""

    name: DisplayName
    permissions: Annotated[
        list[Permission],
        Field(min_length=1, max_length=len(Permission), description="Only what the caller has."),
    ]
    expires_in_seconds: Annotated[float, Field(gt=0, le=_TEN_YEARS)] | None = Field(
        None,
        description="At most as long as the key that makes it; ends with that one if left out.",
    )


class KeyView(View):
    """An API key without its secret."""

    prefix: str
    name: str
    permissions: list[Permission]
    created_at: IsoTime
    expires_at: IsoTime | None = optional()
    revoked_at: IsoTime | None = optional()
    last_used_at: IsoTime | None = optional()
    created_by: str | None = optional(_CREATED_BY)


class KeyCreated(View):
    """A new key. `key` is shown this once."""

    key: str
    prefix: str
    name: str
    permissions: list[Permission]
    created_by: str = Field(description=_CREATED_BY)
    expires_at: IsoTime | None = optional()


@router.get(needs=Permission.KEYS_WRITE)
async def list_keys(context: Context) -> Page[KeyView]:
    """List the tenant's keys, newest first, without their secrets."""
    rows = await context.list(keys.list_keys)
    return Page[KeyView].of_all([row | {"permissions": sorted(row["permissions"])} for row in rows])


@router.post(needs=Permission.KEYS_WRITE, refuses=(409,), status=201)
async def create_key(body: KeyRequest, context: Context) -> KeyCreated:
    """Create a key. Its secret is shown only this once and stored as a hash.

    The new key allows no more than the key that makes it, expires with that key at the latest, and
    is revoked with it.
    """
    caller, replica = context.caller, context.replica
    missing = sorted(set(body.permissions) - caller.permissions)
    if missing:
        detail = f"this API key cannot grant permissions that it lacks: {', '.join(missing)}"
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
    await _check_lifetime(context, body.expires_in_seconds)
    child = await replica.database.query_once(keys.create_child_key, new, caller.prefix)
    if child is None:
        replica.keys.forget(caller.prefix)
        raise UnauthenticatedError("this API key ended while it was making another")
    return KeyCreated(
        key=child.key,
        prefix=new.prefix,
        name=new.name,
        permissions=list(new.permissions),
        created_by=caller.prefix,
        expires_at=child.expires_at,
    )


@router.delete("/{prefix}", needs=Permission.KEYS_WRITE, refuses=(404,))
async def revoke_key(
    prefix: Annotated[str, Path(pattern="^[A-Za-z0-9-]{1,64}$")], context: Context
) -> None:
    """Revoke a key and all keys that it made; within ten seconds no replica accepts them."""
    revoked = await context.write(keys.revoke_key, prefix, context.caller.prefix)
    for each in unless_missing(revoked, f"key {prefix}"):
        context.replica.keys.forget(each)


async def _check_lifetime(context: Context, wanted: float | None) -> None:
    """Raise if a key would outlive the key that makes it."""
    if wanted is None:
        return
    maker = await context.replica.database.query(keys.find_key, context.caller.prefix)
    if maker is not None and maker.lives is not None and wanted > maker.lives:
        raise InvalidError(
            "expiresInSeconds",
            f"at most {math.floor(maker.lives)}: the key that makes it ends then; "
            "leave it out to end together",
        )
