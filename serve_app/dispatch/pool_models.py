"""What callers of dispatch pools send and get."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from core.dispatch.pool import DEFAULT_CONCURRENCY, MAX_CONCURRENCY, MAX_RATE, PoolStatus
from serve_app.dispatch.subscription_models import Code
from serve_app.events.event_type_models import Description, DisplayName
from serve_app.http.models import WireModel
from storage.dispatch.pools import NewPool, PoolFilter

MAX_DECLARED_POOLS = 100

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


class PoolPatch(WireModel):
    """What is to change; the rest stays."""

    name: DisplayName | None = None
    description: Description | None = Field(None, description="null takes it away.")
    rate_limit: RateLimit | None = None
    concurrency: Concurrency | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("at least one field")
        empty = [n for n in self.model_fields_set & {"name", "concurrency"} if self._lacks(n)]
        if empty:
            raise ValueError(f"{min(empty)} cannot be null")
        return self

    def _lacks(self, name: str) -> bool:
        return getattr(self, name) is None

    def values(self) -> dict[str, Any]:
        """What is given, as it is stored."""
        return self.model_dump(exclude_unset=True)


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
    limit: Annotated[int, Field(ge=1, le=500)] = 100
    cursor: str | None = Field(None, description="nextCursor of the page before.")

    def to_filter(self) -> PoolFilter:
        """As the database is asked."""
        return PoolFilter(status=self.status, is_anchors=self.anchor_level)


class PoolView(WireModel):
    """A dispatch pool."""

    id: str
    code: str
    name: str
    description: str | None
    rate_limit: int | None
    concurrency: int
    status: PoolStatus
    anchor_level: bool = Field(
        description="Whether everybody may use it; only the anchor changes it."
    )
    application: str | None
    created_at: str
    updated_at: str


class PoolPage(WireModel):
    """Dispatch pools in the order they were made."""

    pools: list[PoolView]
    total: int
    next_cursor: str | None
