"""What callers of dispatch pools send and get."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from core.dispatch.pool import DEFAULT_CONCURRENCY, MAX_CONCURRENCY, MAX_RATE, PoolStatus
from core.dispatch.subscription import CODE, MAX_CODE_LENGTH, MIN_CODE_LENGTH
from serve_app.http.fields import TSID, Cursor, Description, DisplayName, IsoTime, Limit
from serve_app.http.models import Patch, View, WireModel
from storage.dispatch.pools import NewPool, PoolFilter

POOL_NAME = rf"^(?:dpl_(?:default|{TSID})|[a-z][a-z0-9-]{{1,99}})$"
MAX_DECLARED_POOLS = 100

Code = Annotated[
    str,
    Field(
        pattern=CODE,
        min_length=MIN_CODE_LENGTH,
        max_length=MAX_CODE_LENGTH,
        examples=["order-processor"],
    ),
]
RateLimit = Annotated[
    int, Field(ge=1, le=MAX_RATE, description="Deliveries a minute; null: no limit.")
]
Concurrency = Annotated[
    int, Field(ge=1, le=MAX_CONCURRENCY, description="Deliveries under way at once.")
]


class PoolFields(WireModel):
    """What a pool is."""

    name: DisplayName
    description: Description | None = None
    rate_limit: RateLimit | None = None
    concurrency: Concurrency = DEFAULT_CONCURRENCY


class PoolRequest(PoolFields):
    """A dispatch pool to create."""

    code: Code

    def to_new(self, pool_id: str) -> NewPool:
        """As it is stored."""
        return NewPool(pool_id=pool_id, **self.model_dump())


class PoolReplacement(PoolFields):
    """All of a dispatch pool anew; what is left out becomes what it is by default."""

    code: Code | None = Field(None, description="Stays as it is.")

    def values(self) -> dict[str, Any]:
        """All of it, as it is stored."""
        return self.model_dump(exclude={"code"})


class PoolPatch(Patch):
    """Fields to change; the others stay as they are."""

    CLEARABLE = frozenset({"description", "rate_limit"})

    name: DisplayName | None = None
    description: Description | None = Field(None, description="null clears it.")
    rate_limit: RateLimit | None = None
    concurrency: Concurrency | None = None


class PoolSyncRequest(WireModel):
    """All dispatch pools of an application."""

    pools: Annotated[list[PoolRequest], Field(max_length=MAX_DECLARED_POOLS)]
    remove_unlisted: bool = Field(
        False,
        description="Archive those that were declared before and are not listed, unless in use.",
    )
    dry_run: bool = Field(False, description="Say what would happen, and change nothing.")

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        codes = [one.code for one in self.pools]
        if len(set(codes)) < len(codes):
            raise ValueError("each code once")
        return self


class PoolQuery(WireModel):
    """Which dispatch pools a listing shows."""

    status: PoolStatus | None = None
    anchor_level: bool | None = Field(
        None, description="Those of the anchor, which everybody may use; or one's own."
    )
    limit: Limit = 100
    cursor: Cursor = None

    def to_filter(self) -> PoolFilter:
        """As the database is asked."""
        return PoolFilter(status=self.status, is_anchors=self.anchor_level)


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
