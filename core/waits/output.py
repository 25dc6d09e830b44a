"""The output of a finished wait."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from core.shared.json_path import MISSING, document_of, find, json_or_text, parse_path
from core.waits.state import Wait, WaitLogEntry
from core.waits.strategy import Outcome

RESERVED = frozenset(
    {
        "correlation_id",
        "received_events",
        "execution_id",
        "timeout",
        "partial",
        "enabled_events",
        "aggregation_strategy",
    }
)
"""Keys that Muster adds to the output, so no event may have such a name."""


def payloads_of(wait: Wait, entries: Iterable[WaitLogEntry]) -> dict[str, bytes]:
    """Map the name of each received event to its data."""
    by_seq = {entry.seq: entry.payload for entry in entries}
    return {
        event.name: by_seq[state.seq]
        for event, state in zip(wait.spec.events, wait.marks, strict=True)
        if state.seq in by_seq
    }


def aggregate(wait: Wait, payloads: Mapping[str, bytes]) -> dict[str, Any]:
    """Build the output: received data by event name and the ids, mapped if the wait says how.

    Data is passed on undecoded: a gathered document can be large.
    """
    received = [name for name, outcome in wait.outcomes.items() if outcome is Outcome.RECEIVED]
    gathered: dict[str, Any] = {
        name: json_or_text(payloads.get(name, b"null")) for name in received
    }
    gathered["correlation_id"] = wait.address.correlation_id
    gathered["received_events"] = received
    if wait.ending and (wait.ending.timed_out or wait.ending.partial):
        gathered |= {
            "execution_id": wait.address.execution_id,
            "timeout": wait.ending.timed_out,
            "partial": wait.ending.partial,
            "enabled_events": [event.name for event in wait.spec.events],
            "aggregation_strategy": wait.spec.strategy.value,
        }
    if not wait.spec.output:
        return gathered
    values = _Values(gathered)
    mapped = {name: values.find(path) for name, path in wait.spec.output.items()}
    return {name: value for name, value in mapped.items() if value is not MISSING}


class _Values:
    """The gathered values; one is decoded only when a path leads into it."""

    def __init__(self, gathered: Mapping[str, Any]) -> None:
        self._gathered = gathered
        self._decoded: dict[str, Any] = {}

    def find(self, path: str) -> Any:
        if path in self._gathered:
            return self._gathered[path]
        first = (parse_path(path) or (None,))[0]
        if not isinstance(first, str) or first not in self._gathered:
            return MISSING
        if first not in self._decoded:
            value = self._gathered[first]
            is_raw = isinstance(value, msgspec.Raw)
            self._decoded[first] = document_of(bytes(value)) if is_raw else value
        return find({first: self._decoded[first]}, path)
