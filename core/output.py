"""What a finished wait hands on."""

from collections.abc import Mapping
from typing import Any

import msgspec

from core.judgement import Outcome
from core.paths import MISSING, find
from core.wait import Wait


def aggregate(wait: Wait, payloads: Mapping[str, bytes]) -> dict[str, Any]:
    """The received data by event name, with the ids beside it; mapped if the node says how."""
    received = [name for name, outcome in wait.outcomes.items() if outcome is Outcome.RECEIVED]
    gathered: dict[str, Any] = {name: _value(payloads.get(name, b"null")) for name in received}
    gathered["correlation_id"] = wait.address.correlation_id
    gathered["received_events"] = received
    if wait.ending and wait.ending.timed_out:
        gathered |= {
            "execution_id": wait.address.execution_id,
            "timeout": True,
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
    try:
        return msgspec.json.decode(payload)
    except msgspec.DecodeError:
        return payload.decode("utf-8", "replace")
