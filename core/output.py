"""What a finished wait hands on."""

from collections.abc import Mapping
from typing import Any

from core.judgement import Outcome
from core.paths import MISSING, document_of, find
from core.wait import Wait

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
"""Keys the product itself puts beside the events, so no event may have such a name."""


def aggregate(wait: Wait, payloads: Mapping[str, bytes]) -> dict[str, Any]:
    """The received data by event name, with the ids beside it; mapped if the node says how."""
    received = [name for name, outcome in wait.outcomes.items() if outcome is Outcome.RECEIVED]
    gathered: dict[str, Any] = {name: _value(payloads.get(name, b"null")) for name in received}
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
    mapped = {name: find(gathered, path) for name, path in wait.spec.output.items()}
    return {name: value for name, value in mapped.items() if value is not MISSING}


def _value(payload: bytes) -> Any:
    """JSON as JSON; any other bytes as text, so that nothing is hidden."""
    document = document_of(payload)
    return payload.decode("utf-8", "replace") if document is MISSING else document
