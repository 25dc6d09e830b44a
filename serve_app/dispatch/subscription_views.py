"""What callers of subscriptions get."""

from typing import Any

from pydantic import Field

from core.dispatch.job import Mode
from core.dispatch.subscription import Signature, SubscriptionSource, SubscriptionStatus
from serve_app.dispatch.job_models import Pair
from serve_app.http.models import WireModel


class BindingView(WireModel):
    """Which events."""

    event_type_code: str
    event_type_id: str | None
    spec_version: str | None


class SubscriptionView(WireModel):
    """A subscription, without its secrets."""

    id: str
    code: str
    name: str
    description: str | None
    anchor_level: bool = Field(description="Whether it takes every tenant's events.")
    event_types: list[BindingView]
    target: str
    queue: str | None
    dispatch_pool_id: str
    dispatch_pool_code: str
    mode: Mode
    timeout_seconds: int
    max_age_seconds: int
    delay_seconds: int
    max_retries: int
    sequence: int
    data_only: bool
    filter: str | None
    headers: dict[str, str] = Field(description="Their values are not shown.")
    auth: dict[str, Any] | None
    signature: Signature
    custom_config: list[Pair]
    source: SubscriptionSource
    application: str | None
    status: SubscriptionStatus
    status_reason: str | None
    failing_since: str | None
    version: int = Field(description="Raised with each change that deliveries feel.")
    created_at: str
    updated_at: str


class SubscriptionPage(WireModel):
    """Subscriptions by code."""

    subscriptions: list[SubscriptionView]
    total: int
    next_cursor: str | None


class KeptView(WireModel):
    """What is not listed and could not go."""

    code: str
    reason: str
    detail: str


class SyncView(WireModel):
    """What has become of which; the codes of each kind."""

    application: str
    dry_run: bool
    created: list[str]
    updated: list[str]
    unchanged: list[str]
    removed: list[str]
    kept: list[KeptView]
