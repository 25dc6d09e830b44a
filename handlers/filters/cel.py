"""Filters of subscriptions: CEL expressions on an event, compiled once and bounded in cost.

`event` has the attributes of the event, `data` its payload if that is JSON, else null. An event
matches if the result is `true`; anything else, an error included, is a mismatch. That matters
because the library returns errors as texts, which are true in Python.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from typing import Any, ClassVar

import structlog
from cel_expr_python import cel

from core.dispatch.subscription import Subscription
from core.events.event import Event
from core.shared.json_path import MISSING, document_of
from core.shared.timestamps import to_iso
from handlers.filters.cost import FilterTooCostlyError, estimate_cost, parse_expression

log = structlog.get_logger("filters")

MAX_FILTER_CHARS = 4_000
MAX_EVENT_BYTES = 262_144
"""Bytes. A larger event passes no filter."""
MAX_EVALUATION_NS = 40_000_000.0
"""Nanoseconds that an evaluation may take where it goes worst."""
MIN_EVENT_BYTES = 16_384
"""An expression that could not be evaluated for events of this size is of no use."""
CACHE_SIZE = 2_000
_FRAME = re.compile(r" \[[A-Z_]+\]$| expecting \{.*| \(in container ''\)")


class FilterResult(StrEnum):
    """The result of a filter on an event, with the reason if it could not be evaluated."""

    PASSES = "passes"
    DIFFERS = "differs"
    FAILED = "failed"
    TOO_LARGE = "too_large"


@dataclass(frozen=True, slots=True)
class InvalidFilter:
    """Why an expression cannot be used as a filter."""

    reason: str


class Filter:
    def __init__(self, text: str, expression: Any, largest: int, *, grows: bool) -> None:
        self.text = text
        self.largest = largest
        """The size of the largest event it is evaluated for, in bytes."""
        self._expression = expression
        self._grows = grows

    def evaluate(self, event: Event) -> FilterResult:
        """Evaluate the filter; the result has a reason if the filter could not decide."""
        variables = EventVariables.of(event)
        if variables.size > self.largest:
            return FilterResult.TOO_LARGE
        try:
            # Values that an expression makes live as long as its activation, so an expression that
            # makes large ones gets an activation of its own.
            if self._grows:
                result = self._expression.eval(data=variables.values)
            else:
                result = self._expression.eval(variables.activation)
            value = result.value()
        except Exception:  # the library does not say what it raises; no event fails because of it
            return FilterResult.FAILED
        if value is True:
            return FilterResult.PASSES
        return FilterResult.DIFFERS if value is False else FilterResult.FAILED


class EventVariables:
    """An event converted for CEL, once for all the filters that read it one after the other."""

    _last: ClassVar["EventVariables | None"] = None

    @classmethod
    def of(cls, event: Event) -> "EventVariables":
        if cls._last is None or cls._last.event is not event:
            cls._last = cls(event)
        return cls._last

    def __init__(self, event: Event) -> None:
        self.event = event
        pairs = [*event.context, *event.extensions.items()]
        attributes = sum(len(key) + len(str(value)) for key, value in pairs)
        self.size = len(event.data or b"") + attributes

    @cached_property
    def values(self) -> dict[str, Any]:
        document = document_of(self.event.data or b"") if self.event.is_json else MISSING
        data = None if document is MISSING else document
        return {"event": _attributes(self.event), "data": data}

    @cached_property
    def activation(self) -> Any:
        return _environment().Activation(self.values)


class FilterCounters:
    """Counts the results of filters in this process."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(FilterResult, 0)
        self._oversized: dict[tuple[int, str], str] = {}

    def add(self, result: FilterResult, subscription: Subscription, event: Event) -> None:
        self.counts[result] += 1
        if result is FilterResult.TOO_LARGE and len(self._oversized) < CACHE_SIZE:
            self._oversized[subscription.tenant, subscription.subscription_id] = event.type

    def oversized(self) -> dict[tuple[int, str], str]:
        """Return, once, the subscriptions that missed an event too large for their filter.

        By tenant and id, each with the type of its last such event.
        """
        found, self._oversized = self._oversized, {}
        return found


filter_counters = FilterCounters()


def compile_filter(text: str) -> Filter | InvalidFilter:
    """Compile an expression, or say what is wrong with it. Results are cached."""
    if not 0 < len(text) <= MAX_FILTER_CHARS:
        return InvalidFilter(f"an expression of 1 to {MAX_FILTER_CHARS} characters")
    return _compiled(text)


def passes_filter(subscription: Subscription, event: Event) -> bool:
    """Return True if the subscription has no filter or the event passes it, and count that."""
    if subscription.filter is None:
        return True
    found = compile_filter(subscription.filter)
    # A filter can be invalid only if it was saved by another version.
    result = found.evaluate(event) if isinstance(found, Filter) else FilterResult.FAILED
    filter_counters.add(result, subscription, event)
    return result is FilterResult.PASSES


@cache
def _environment() -> Any:
    return cel.NewEnv(variables={"event": cel.Type.DYN, "data": cel.Type.DYN})


@lru_cache(CACHE_SIZE)
def _compiled(text: str) -> Filter | InvalidFilter:
    try:
        expression = _environment().compile(text)
    except Exception as error:  # the library does not say what it raises
        return InvalidFilter(_plain(str(error)))
    kind = expression.return_type()
    if kind not in (cel.Type.BOOL, cel.Type.DYN):
        return InvalidFilter(
            f"an expression whose result is true or false, not of type {kind.name()}"
        )
    try:
        weight = estimate_cost(parse_expression(expression.serialize()))
    except FilterTooCostlyError as error:
        return InvalidFilter(str(error))
    except ValueError:
        log.exception("filters.unreadable")
        return InvalidFilter("an expression whose cost can be estimated")
    largest = min(MAX_EVENT_BYTES, weight.largest(MAX_EVALUATION_NS))
    if largest < MIN_EVENT_BYTES:
        return InvalidFilter("less work: this could take too long on a large event")
    return Filter(text, expression, largest, grows=weight.grows)


def _plain(error: str) -> str:
    """Return the library's message without the lines around it."""
    line = _FRAME.sub("", error.splitlines()[0]).partition("ERROR: <input>:")
    place, _, sentence = (line[2] or line[0]).partition(": ")
    row, _, column = place.partition(":")
    if row.isdigit() and column.isdigit():
        return f"line {row}, column {column}: {sentence}"
    return sentence or line[0]


def _attributes(event: Event) -> dict[str, Any]:
    return {
        "id": event.event_id,
        "specVersion": event.spec_version,
        "type": event.type,
        "source": event.source,
        "subject": event.subject,
        "time": to_iso(event.time),
        "dataContentType": event.content_type,
        "dataSchema": event.data_schema,
        "typeVersion": event.type_version,
        "executionId": event.execution_id,
        "correlationId": event.correlation_id,
        "causationId": event.causation_id,
        "deduplicationId": event.deduplication_id,
        "messageGroup": event.message_group,
        "contextData": dict(event.context),
        "extensions": dict(event.extensions),
    }
