"""Matching: which expected events an incoming event can fulfil, or why it fulfils none."""

from typing import Any

import msgspec

from core.shared.json_path import MISSING, document_of, equal_json, find
from core.waits.messages import Difference, Offer, Reason
from core.waits.spec import Slot, WaitSpec

_UNREAD = object()


class NoMatch(msgspec.Struct, frozen=True):
    """Why an event matches no expected event, by the expected event that came closest."""

    reason: Reason
    clause: Difference


def candidates(spec: WaitSpec, offer: Offer) -> list[Slot] | NoMatch:
    """Return the expected events that this offer could fulfil, the most specific first."""
    by_source = spec.by_source.get(offer.source)
    if by_source is None:
        expected = sorted(source.value for source in spec.by_source)
        return NoMatch(
            Reason.SOURCE_NOT_EXPECTED, Difference("source", expected, offer.source.value)
        )
    by_label = [at for at in by_source if at[1].label is None or at[1].label == offer.label]
    if offer.by_token:
        # The token belongs to the URL of one event, so it fulfils no event that accepts any sender.
        by_label = [at for at in by_label if at[1].label is not None] or by_label
    if not by_label:
        rule = "topic" if offer.source == "kafka" else "service"
        labels = sorted(event.label for _, event in by_source if event.label is not None)
        return NoMatch(Reason.LABEL_NOT_EXPECTED, Difference(rule, labels, offer.label))
    return _filtered(by_label, offer)


def _filtered(places: list[Slot], offer: Offer) -> list[Slot] | NoMatch:
    document: Any = _UNREAD
    passed: list[Slot] = []
    nearest: Difference | None = None
    for place in places:
        filter_ = place[1].filter
        if not filter_:
            passed.append(place)
            continue
        if document is _UNREAD:
            document = document_of(offer.payload)
        clause = first_difference(filter_, document)
        if clause is None:
            passed.append(place)
        else:
            nearest = nearest or clause
    if passed or nearest is None:
        return passed
    return NoMatch(Reason.FILTERED_OUT, nearest)


def first_difference(filter_: dict[str, Any], document: Any) -> Difference | None:
    """Return the first clause of the filter that the document does not match."""
    for path, expected in filter_.items():
        actual = find(document, path)
        if actual is MISSING:
            return Difference(f"filter.{path}", expected, None, is_absent=True)
        if not equal_json(expected, actual):
            return Difference(f"filter.{path}", expected, _brief(actual))
    return None


def _brief(value: Any) -> Any:
    """Return the value shortened, because it is part of an explanation."""
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        value = str(value)  # replies are msgpack, which has no longer integers
    if isinstance(value, str) and len(value) > 200:
        return value[:200] + "…"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return value
