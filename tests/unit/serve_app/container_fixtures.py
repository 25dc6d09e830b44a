"""Waits and logs made by the core itself, so that what is shown is what can happen."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from core.shared.address import Address
from core.waits.config import WaitConfig
from core.waits.messages import Cancel, Expire, Offer, Register, Reply, WaitMessage
from core.waits.spec import Source, WaitSpec, encode_spec
from core.waits.state import ParkedEvent, Wait, WaitLogEntry
from core.waits.transitions import apply
from serve_app.http.models import View

ADDRESS = Address(7, "run", "order")
OPENED = 1_700_000_000.0


def spec_of(**config: Any) -> WaitSpec:
    return WaitConfig.model_validate(config).to_spec()


BOTH = spec_of(apiCall={"url": "u"}, kafkaEvent={"topic": "orders"}, timeout=60)


@dataclass
class WaitHistory:
    """One correlation through its turns."""

    spec: WaitSpec = BOTH
    wait: Wait | None = None
    entries: list[WaitLogEntry] = field(default_factory=list)
    parked: list[ParkedEvent] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)

    def __post_init__(self) -> None:
        register = Register(
            address=ADDRESS, turn_id="t0", node_id="wait", spec=encode_spec(self.spec)
        )
        self._turn(register, OPENED)

    @property
    def now(self) -> Wait:
        assert self.wait is not None
        return self.wait

    def callback(self, name: str, payload: bytes = b"{}", service: str = "bank") -> "WaitHistory":
        return self._offer(Source.API, service, name, payload)

    def event(self, name: str, payload: bytes = b"{}", topic: str = "orders") -> "WaitHistory":
        return self._offer(Source.KAFKA, topic, name, payload)

    def expire(self, after: float) -> "WaitHistory":
        at = OPENED + after
        return self._turn(Expire(address=ADDRESS, turn_id="x", at=at), at)

    def cancel(self) -> "WaitHistory":
        return self._turn(Cancel(address=ADDRESS, turn_id="c"), OPENED + 1)

    def _offer(self, source: Source, label: str, name: str, payload: bytes) -> "WaitHistory":
        offer = Offer(
            address=ADDRESS,
            turn_id=name,
            event_id=f"{source}/{label}/{name}",
            source=source,
            label=label,
            payload=payload,
        )
        return self._turn(offer, OPENED + 1 + len(self.entries))

    def _turn(self, message: WaitMessage, now: float) -> "WaitHistory":
        decision = apply(self.wait, message, now)
        self.wait = decision.wait
        self.entries += decision.entries
        self.parked += decision.parked
        self.replies.append(decision.reply)
        return self


def numbers(frames: Sequence[tuple[int, bytes]]) -> list[int]:
    return [number for number, _ in frames]


def document_of(view: View) -> dict[str, Any]:
    """The document as a client reads it."""
    document: dict[str, Any] = json.loads(view.to_json())
    return document
