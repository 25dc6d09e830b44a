"""Dispatch pools as callers send and get them."""

from typing import Annotated

from pydantic import Field

from core.dispatch.pool import DEFAULT_CONCURRENCY, MAX_CONCURRENCY, MAX_RATE, PoolStatus
from serve_app.http.fields import TSID, Code, Cursor, Description, DisplayName, IsoTime, Limit
from serve_app.http.models import Patch, Replacement, View, WireModel
from serve_app.http.path_types import id_or_code

POOL_NAME = rf"^(?:dpl_(?:default|{TSID})|[a-z][a-z0-9-]{{1,99}})$"
NamedPool = Annotated[str, id_or_code(POOL_NAME, "default")]


class PoolFields(WireModel):
    """The fields that a caller can set."""

    name: DisplayName
    description: Description | None = None
    rate_limit: int | None = Field(
        None, ge=1, le=MAX_RATE, description="Deliveries a minute; null: no limit."
    )
    concurrency: int = Field(
        DEFAULT_CONCURRENCY, ge=1, le=MAX_CONCURRENCY, description="Deliveries under way at once."
    )


class PoolRequest(PoolFields):
    """A dispatch pool to create."""

    code: Code


class PoolReplacement(Replacement, PoolFields):
    """All of a dispatch pool; fields that are left out get their default."""

    code: Code | None = Field(None, description="Cannot change.")


class PoolPatch(Patch, PoolFields):
    """Fields to change; the others stay as they are."""


class PoolQuery(WireModel):
    """Which dispatch pools a listing shows."""

    status: PoolStatus | None = None
    anchor_level: bool | None = Field(
        None, description="true: the anchor's, which every tenant may use; false: one's own."
    )
    limit: Limit = 100
    cursor: Cursor = None


class PoolView(View):
    """A dispatch pool."""

    id: str = Field(validation_alias="pool_id")
    code: str
    name: str
    description: str | None
    rate_limit: int | None
    concurrency: int
    status: PoolStatus
    anchor_level: bool = Field(
        validation_alias="is_anchors",
        description="Whether every tenant may use it; only the anchor can change it.",
    )
    application: str | None
    created_at: IsoTime
    updated_at: IsoTime
