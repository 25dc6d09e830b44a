"""Gathers made by the core itself, so that what is shown is what can happen."""

from dataclasses import dataclass, field

import msgspec

from core.gathers.gather import (
    GatherSpec,
    Question,
    Resource,
    encode_gather_spec,
    failure,
    wait_spec_of,
)
from core.shared.address import Address
from core.shared.call_outcome import CallState
from core.waits.messages import Accept, Cancel, Expire, Offer, Register, WaitMessage
from core.waits.spec import Source, encode_spec
from core.waits.state import Wait, WaitLogEntry
from core.waits.strategy import Outcome
from core.waits.transitions import apply

ADDRESS = Address(7, "g-1", "g-1")
OPENED = 1_700_000_000.0
TIMEOUT = 10.0
NAMES = ("resource-1", "resource-2", "resource-3")
_ASKS = tuple(
    Question(name=name, inline=Resource(url=f"http://{name}.example", headers={"X-Key": "s3cr3t"}))
    for name in NAMES
)
GENERAL = GatherSpec(asks=_ASKS, context=msgspec.Raw(b'{"order":  1.10}'))
JOURNALS = GatherSpec(asks=_ASKS, context=msgspec.Raw(b'{"patientId":"p-1"}'), format="journals")


@dataclass
class Gather:
    """One gather through its turns; a second passes with each."""

    asked: GatherSpec = GENERAL
    wait: Wait | None = None
    entries: list[WaitLogEntry] = field(default_factory=list)
    now: float = OPENED

    def __post_init__(self) -> None:
        self._say(
            Register(
                address=ADDRESS,
                turn_id="r",
                node_id="gather",
                spec=encode_spec(wait_spec_of(self.asked.asks, TIMEOUT)),
                asked=encode_gather_spec(self.asked),
            )
        )

    @property
    def state(self) -> Wait:
        assert self.wait is not None
        return self.wait

    @property
    def counted(self) -> list[WaitLogEntry]:
        numbers = {mark.seq for mark in self.state.marks if mark.event_id}
        return [entry for entry in self.entries if entry.seq in numbers]

    @property
    def payloads(self) -> dict[str, bytes]:
        return {entry.event: entry.payload for entry in self.counted if entry.event}

    def accept(self, number: int) -> "Gather":
        return self._say(Accept(address=ADDRESS, turn_id="a", event=NAMES[number - 1]))

    def answer(
        self, number: int, payload: bytes = b"{}", outcome: Outcome = Outcome.RECEIVED
    ) -> "Gather":
        name = NAMES[number - 1]
        return self._say(
            Offer(
                address=ADDRESS,
                turn_id=f"t-{len(self.entries)}",
                event_id=f"e-{len(self.entries)}",
                source=Source.API,
                label=name,
                payload=payload,
                outcome=outcome,
            )
        )

    def fail(self, number: int, state: CallState, detail: str = "why") -> "Gather":
        outcome = {CallState.REJECTED: Outcome.REJECTED, CallState.TIMEOUT: Outcome.TIMED_OUT}
        return self.answer(number, failure(state, detail), outcome.get(state, Outcome.FAILED))

    def expire(self) -> "Gather":
        self.now = OPENED + TIMEOUT
        return self._say(Expire(address=ADDRESS, turn_id="x", at=self.now))

    def cancel(self) -> "Gather":
        return self._say(Cancel(address=ADDRESS, turn_id="c"))

    def _say(self, message: WaitMessage) -> "Gather":
        decision = apply(self.wait, message, self.now)
        self.wait = decision.wait
        self.entries += decision.entries
        self.now += 1
        return self
