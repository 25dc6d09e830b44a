"""Idempotency over HTTP: the keys that settings would make, before a trigger has them."""

import uuid
from typing import Any

from pydantic import ValidationError

from core.access.permissions import Permission
from core.expressions.tree import InvalidExpressionError
from core.shared.errors import InvalidError
from core.triggers.idempotency_key import (
    IdempotencyKey,
    NoIdempotencyKeyError,
    TriggerEvent,
    make_key,
)
from core.triggers.idempotency_settings import IdempotencySettings, IdempotencyStrategy
from core.triggers.key_expression import KeyExpression, compile_key_expression
from handlers.filters.expressions import compile_expression
from serve_app.http.router import Context, HttpRouter
from serve_app.triggers.idempotency_models import (
    IdempotencyKeyView,
    KeyPreviewRequest,
    KeyPreviewView,
    SampleEvent,
    StrategyPreview,
)
from services.shared.time_slice import TimeSlice

STRATEGY = "strategy"

router = HttpRouter("/control/idempotency", tag="idempotency")


@router.post("/preview", needs=Permission.WORKFLOWS_READ, logs=False)
async def preview_idempotency(body: KeyPreviewRequest, context: Context) -> KeyPreviewView:
    """Show the keys that events would have, and which would be duplicates; nothing is stored."""
    now_ms = round(context.replica.client.clock.now() * 1000)
    if STRATEGY in body.settings:
        settings, expression = _read(body.settings)
        preview = await _preview(body, context.tenant, settings, expression, now_ms)
        return KeyPreviewView(items=[preview])
    items = []
    for strategy in IdempotencyStrategy:
        try:
            settings, expression = _read({**body.settings, STRATEGY: strategy})
        except InvalidError as error:
            items.append(_without_keys(strategy, str(error)))
        else:
            items.append(await _preview(body, context.tenant, settings, expression, now_ms))
    return KeyPreviewView(items=items)


def _read(written: dict[str, Any]) -> tuple[IdempotencySettings, KeyExpression | None]:
    try:
        settings = IdempotencySettings.model_validate(written)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(["settings", *map(str, first["loc"])])
        raise InvalidError(place, first["msg"].removeprefix("Value error, ")) from None
    if settings.strategy is not IdempotencyStrategy.CUSTOM_EXPRESSION:
        return settings, None
    try:
        return settings, compile_key_expression(
            settings.custom_expression or "", compile_expression
        )
    except InvalidExpressionError as error:
        raise InvalidError("settings.customExpression", str(error)) from None


async def _preview(
    body: KeyPreviewRequest,
    tenant: int,
    settings: IdempotencySettings,
    expression: KeyExpression | None,
    now_ms: int,
) -> StrategyPreview:
    """Make the keys in the order of time, as the events would come."""
    times = [_time(one, now_ms) for one in body.events]
    views: list[IdempotencyKeyView] = [IdempotencyKeyView()] * len(times)
    first: dict[bytes, tuple[int, int | None]] = {}
    work = TimeSlice()
    for place in sorted(range(len(times)), key=times.__getitem__):
        if work.is_due:
            await work.take()
        one, at = body.events[place], times[place]
        event = TriggerEvent(body.trigger_id, one.event_name, one.event_id, one.context)
        try:
            key = make_key(tenant, settings, event, at, str(uuid.uuid4()), expression)
        except NoIdempotencyKeyError as error:
            views[place] = IdempotencyKeyView(skipped=str(error))
            continue
        views[place] = _view(key, _earlier(first, key, place, at))
    skipped = sum(one.skipped is not None for one in views)
    duplicates = sum(one.duplicate_of is not None for one in views)
    return StrategyPreview(
        strategy=settings.strategy,
        keys=views,
        starts=len(views) - skipped - duplicates,
        duplicates=duplicates,
        skipped=skipped,
    )


def _time(event: SampleEvent, now_ms: int) -> int:
    return now_ms if event.at is None else round(event.at.timestamp() * 1000)


def _earlier(
    first: dict[bytes, tuple[int, int | None]], key: IdempotencyKey, place: int, at: int
) -> int | None:
    """Return the event whose key is still kept, or note that this is the first one."""
    if key.digest is None:
        return None
    found = first.get(key.digest)
    if found is not None and (found[1] is None or at < found[1]):
        return found[0]
    first[key.digest] = (place, key.expires_at_ms)
    return None


def _view(key: IdempotencyKey, duplicate_of: int | None) -> IdempotencyKeyView:
    return IdempotencyKeyView(
        key=key.text,
        hash=None if key.digest is None else key.digest.hex(),
        expires_at=None if key.expires_at_ms is None else key.expires_at_ms / 1000,
        duplicate_of=duplicate_of,
    )


def _without_keys(strategy: IdempotencyStrategy, error: str) -> StrategyPreview:
    return StrategyPreview(
        strategy=strategy, error=error, keys=[], starts=0, duplicates=0, skipped=0
    )
