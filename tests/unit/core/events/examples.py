"""Events in each form that they may come in, and their refusals."""

from typing import Any

import msgspec
import pytest

from core.events.cloud_event import EventStamp, read_binary, read_event
from core.events.event import Event
from core.shared.errors import InvalidError

NOW = 1_750_000_000.0
STAMP = EventStamp(7, NOW, iter([f"{n:013}" for n in range(10_000)]).__next__)
LEAST: dict[str, Any] = {"type": "order.created", "source": "shop"}
CLOUD: dict[str, Any] = {**LEAST, "specversion": "1.0", "id": "e1"}
HEADERS = {"ce-specversion": "1.0", "ce-id": "e1", "ce-type": "order.created", "ce-source": "shop"}


def plain(**more: Any) -> Event:
    return read_event(msgspec.json.encode(LEAST | more), STAMP)


def structured(**more: Any) -> Event:
    return read_event(msgspec.json.encode(CLOUD | more), STAMP, structured=True)


def binary(body: bytes = b"", **more: str) -> Event:
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return read_binary(HEADERS | named, body, STAMP)


def refusal(raw: bytes, *, structured: bool = False) -> tuple[str, str]:
    with pytest.raises(InvalidError) as raised:
        read_event(raw, STAMP, structured=structured)
    return raised.value.field, raised.value.expected
