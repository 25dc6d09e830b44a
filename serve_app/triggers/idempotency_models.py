"""Idempotency settings and sample events as callers send them, and the keys they would have."""

from typing import Annotated, Any

from pydantic import AwareDatetime, Field

from core.triggers.idempotency_settings import IdempotencyStrategy
from serve_app.http.fields import IsoTime, optional
from serve_app.http.models import View, WireModel

MAX_SAMPLES = 200
EventName = Annotated[str, Field(max_length=255, examples=["LEARNER_BATCH_ENROLLMENT"])]


class SampleEvent(WireModel):
    """An event that could start a workflow."""

    event_name: EventName | None = None
    event_id: Annotated[str, Field(max_length=255)] | None = None
    context: dict[str, Any] = Field(
        default_factory=dict, description="What contextFields and customExpression read."
    )
    at: AwareDatetime | None = Field(None, description="When it comes; left out: now.")


class KeyPreviewRequest(WireModel):
    """Settings to try on events."""

    settings: dict[str, Any] = Field(
        description="A trigger's idempotencyGenerationSetting. Without strategy each one is tried.",
        examples=[{"strategy": "CONTEXT_BASED", "contextFields": ["userId"]}],
    )
    trigger_id: Annotated[str, Field(min_length=1, max_length=100)] = "1"
    events: Annotated[list[SampleEvent], Field(min_length=1, max_length=MAX_SAMPLES)]


class IdempotencyKeyView(WireModel):
    """The key of one event, or why there is none."""

    key: str | None = optional("What people read; a new UUID where nothing is a duplicate.")
    hash: str | None = optional("What must be unique; left out where nothing is a duplicate.")
    expires_at: IsoTime | None = optional("When an equal event is no duplicate any more.")
    duplicate_of: int | None = optional("The event that starts the workflow instead, from 0.")
    skipped: str | None = optional("Why there is no key, so that nothing starts.")


class StrategyPreview(WireModel):
    """What one strategy makes of the events."""

    strategy: IdempotencyStrategy
    error: str | None = optional("What the strategy needs and the settings do not have.")
    keys: list[IdempotencyKeyView] = Field(description="One for each event, in their order.")
    starts: int = Field(description="How many of the events would start the workflow.")
    duplicates: int
    skipped: int


class KeyPreviewView(View):
    """What strategies make of the events."""

    items: list[StrategyPreview]
