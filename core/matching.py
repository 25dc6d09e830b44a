"""Which expected event an incoming one fulfils, or the clause that it failed."""

from typing import Any

import msgspec

from core.messages import Clause, Offer, Reason
from core.paths import MISSING, document_of, find, same
from core.spec import Expected, WaitSpec

_UNREAD = object()


class Mismatch(msgspec.Struct, frozen=True):
    """The nearest miss."""

    reason: Reason
    clause: Clause


def candidates(spec: WaitSpec, offer: Offer) -> list[Expected] | Mismatch:
    """Every expected event this offer could fulfil: the most particular first.

    An event that names its origin or filters more takes precedence over one that takes anything,
    so that a particular event is not used up where a general one would have done.
    """
    by_source = [event for event in spec.events if event.source is offer.source]
    if not by_source:
        expected = sorted({event.source.value for event in spec.events})
        return Mismatch(Reason.SOURCE_NOT_EXPECTED, Clause("source", expected, offer.source.value))
    by_label = [event for event in by_source if event.label in (None, offer.label)]
    if not by_label:
        rule = "topic" if offer.source == "kafka" else "service"
        labels = sorted(event.label for event in by_source if event.label is not None)
        return Mismatch(Reason.LABEL_NOT_EXPECTED, Clause(rule, labels, offer.label))
    return _filtered(by_label, offer)


def _filtered(events: list[Expected], offer: Offer) -> list[Expected] | Mismatch:
    document: Any = _UNREAD
    passed: list[Expected] = []
    nearest: Clause | None = None
    for event in events:
        if event.filter and document is _UNREAD:
            document = document_of(offer.payload)
        clause = failed_clause(event.filter, document)
        if clause is None:
            passed.append(event)
        else:
            nearest = nearest or clause
    if passed or nearest is None:
        return sorted(passed, key=lambda event: (event.label is None, -len(event.filter)))
    return Mismatch(Reason.FILTERED_OUT, nearest)


def failed_clause(filter_: dict[str, Any], document: Any) -> Clause | None:
    """The first key of the filter that the document does not equal."""
    for path, expected in filter_.items():
        actual = find(document, path)
        if actual is MISSING:
            return Clause(f"filter.{path}", expected, None)
        if not same(expected, actual):
            return Clause(f"filter.{path}", expected, _brief(actual))
    return None


def _brief(value: Any) -> Any:
    """The value as an explanation shows it: enough to see the difference, never a megabyte."""
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        value = str(value)  # a reply travels as msgpack, which has no longer numbers
    if isinstance(value, str) and len(value) > 200:
        return value[:200] + "…"
    return value if isinstance(value, str | int | float | bool | None) else type(value).__name__
