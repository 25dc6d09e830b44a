"""Requests and responses of API keys."""

from typing import Annotated

from pydantic import Field

from core.access.permissions import Permission
from serve_app.http.fields import DisplayName, IsoTime, optional
from serve_app.http.models import View, WireModel

_TEN_YEARS = 10 * 365 * 86_400.0
_CREATED_BY = "Prefix of the key that made it."


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
