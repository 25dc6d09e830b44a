"""Idempotency keys: what two starts of a trigger have in common if the second is a duplicate.

A key has two forms. People read `trigger_7_userId_u1`. What must be unique is a digest of the typed
parts, so that neither values with `_` nor 1 and "1", null and "null" collide.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from core.expressions.semantics import EvaluationError
from core.shared.json_path import MISSING, find
from core.triggers.idempotency_settings import IdempotencySettings, IdempotencyStrategy, WindowKind
from core.triggers.key_expression import KeyExpression

MAX_KEY_CHARS = 255
DAY_MS = 86_400_000
_encode = msgspec.json.Encoder(order="deterministic").encode


class TriggerEvent(NamedTuple):
    """What is about to start a workflow: an event for one of its triggers, with a context."""

    trigger_id: str
    event_name: str | None = None
    event_id: str | None = None
    context: Mapping[str, Any] = {}


class IdempotencyKey(NamedTuple):
    """The key of one start; starts with equal digests are duplicates."""

    text: str
    digest: bytes | None = None
    """None: the strategy knows no duplicates, and no key is kept."""
    expires_at_ms: int | None = None
    """From when on an equal start is no duplicate any more; None: never."""


class NoIdempotencyKeyError(ValueError):
    """There is no key for this event, so the trigger is skipped; the message says why."""


def make_key(
    tenant: int,
    settings: IdempotencySettings,
    event: TriggerEvent,
    now_ms: int,
    new_uuid: str,
    expression: KeyExpression | None = None,
) -> IdempotencyKey:
    """Make the key of an event that came at `now_ms`; `expression` is the compiled custom one.

    Raises:
        NoIdempotencyKeyError: A field of the context is missing, or the expression has no value.
    """
    parts: Sequence[Any]
    match settings.strategy:
        case IdempotencyStrategy.NONE | IdempotencyStrategy.UUID:
            return IdempotencyKey(new_uuid)
        case IdempotencyStrategy.TIME_WINDOW:
            parts = ()
        case IdempotencyStrategy.EVENT_BASED:
            parts = _event_parts(settings, event)
        case IdempotencyStrategy.CUSTOM_EXPRESSION:
            parts = _custom_parts(settings, event, expression)
        case _:
            parts = _context_parts(settings, event)
    is_custom = settings.strategy is IdempotencyStrategy.CUSTOM_EXPRESSION
    trigger = event.trigger_id if settings.include_trigger_id and not is_custom else None
    stamp = _stamp(settings, now_ms)
    try:
        own = [("" if is_custom else "_").join(map(_text, parts))] if parts else []
        typed = _encode([tenant, settings.strategy, trigger, _canonical([*parts]), stamp])
    except (UnicodeEncodeError, RecursionError) as error:
        raise NoIdempotencyKeyError(f"a value cannot be part of a key: {error}") from None
    prefix = [] if trigger is None else ["trigger", trigger]
    suffix = [] if stamp is None else [str(stamp)]
    digest = hashlib.blake2b(typed, digest_size=16).digest()
    text = _bounded("_".join([*prefix, *own, *suffix]).rstrip("_"), digest)
    return IdempotencyKey(text, digest, _expiry(settings, now_ms))


def _context_parts(settings: IdempotencySettings, event: TriggerEvent) -> list[Any]:
    parts: list[Any] = []
    for name in settings.context_fields:
        value = find(event.context, name)
        if value is MISSING or value is None:
            if settings.fail_on_missing_context:
                raise NoIdempotencyKeyError(f"the context has no value for {name}")
            value = None
        parts += [name, value]
    return parts


def _event_parts(settings: IdempotencySettings, event: TriggerEvent) -> list[Any]:
    parts: list[Any] = []
    if settings.include_event_type:
        parts += ["eventType", event.event_name]
    if settings.include_event_id:
        parts += ["eventId", event.event_id]
    return parts


def _custom_parts(
    settings: IdempotencySettings, event: TriggerEvent, expression: KeyExpression | None
) -> list[Any]:
    if expression is None:
        raise NoIdempotencyKeyError("the custom expression cannot be used")
    scope = {
        "ctx": event.context,
        "triggerId": event.trigger_id,
        "eventName": event.event_name,
        "eventId": event.event_id,
    }
    parts: list[Any] = []
    for part in expression.parts:
        if isinstance(part, str):
            parts.append(part)
            continue
        try:
            value = part.evaluate(event.context.get, scope)
        except EvaluationError as error:
            raise NoIdempotencyKeyError(f"the custom expression has no value: {error}") from None
        if value is None and (settings.fail_on_missing_context or not expression.is_template):
            raise NoIdempotencyKeyError("the custom expression is null for this event")
        parts.append(value)
    return parts


def _stamp(settings: IdempotencySettings, now_ms: int) -> int | None:
    """Return the beginning of a tumbling window."""
    window = settings.window_ms
    if window is None or settings.window is WindowKind.SLIDING:
        return None
    return now_ms // window * window


def _expiry(settings: IdempotencySettings, now_ms: int) -> int | None:
    """Return when the key can go.

    A tumbling window is part of its key, which stays a day longer for clocks that differ.
    """
    window = settings.window_ms
    if window is not None and settings.window is WindowKind.SLIDING:
        return now_ms + window
    if window is not None:
        return now_ms // window * window + window + DAY_MS
    if settings.keep_days == "forever":
        return None
    return now_ms + settings.keep_days * DAY_MS


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _encode(_canonical(value)).decode()


def _canonical(value: Any) -> Any:
    """Write numbers that are equal alike."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_canonical(one) for one in value]
        case dict():
            return {name: _canonical(one) for name, one in value.items()}
        case _:
            return value


def _bounded(text: str, digest: bytes) -> str:
    """Cut a long key, and end it with its digest instead."""
    if len(text) <= MAX_KEY_CHARS:
        return text
    end = f"…{digest.hex()}"
    return text[: MAX_KEY_CHARS - len(end)] + end
