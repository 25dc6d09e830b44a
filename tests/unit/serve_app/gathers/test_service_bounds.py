"""A gather whose calls nobody has room for is not begun."""

from typing import Any

import pytest

from core.access.tokens import CALLBACK, STREAM
from core.gathers.gather import CallBatch
from core.shared.config import Config
from core.shared.errors import OverloadedError
from core.waits.messages import Cancel, Register, RegisterReply, Reply, StatusReply, WaitMessage
from core.waits.strategy import Status
from serve_app.gathers.service import GatherService
from serve_app.http.auth import TokenSigner
from tests.unit.serve_app.gathers.fixtures import GENERAL


class Door:
    """Correlations that take everything, and pools that are full or not."""

    def __init__(self, agreed: int | None) -> None:
        self.config = Config(dsn="")
        self.accepted = agreed
        self.said: list[WaitMessage] = []

    async def send(self, message: WaitMessage) -> Reply:
        self.said.append(message)
        if isinstance(message, Register):
            return RegisterReply(
                created=True, status=Status.WAITING, version=1, opened_at=1.0, expires_at=11.0
            )
        return StatusReply(status=Status.CANCELLED, changed=True)

    async def begin_calls(self, errand: CallBatch, patience: float) -> int | None:
        assert (len(errand.calls), patience > 0) == (3, True)
        return self.accepted


async def secrets(_: str, __: bytes) -> list[bytes]:
    return [b"k" * 32]


def gatherer(door: Any) -> GatherService:
    tokens = {purpose: TokenSigner(secrets, purpose) for purpose in (CALLBACK, STREAM)}
    return GatherService(door, door, tokens)


async def test_without_room_for_its_calls_it_is_cancelled_and_the_caller_comes_again() -> None:
    door = Door(None)
    with pytest.raises(OverloadedError) as refusal:
        await gatherer(door).begin(7, GENERAL, 10_000)
    assert refusal.value.retry_after > 0
    registered, cancelled = door.said
    assert isinstance(cancelled, Cancel)
    assert cancelled.address == registered.address


async def test_with_room_it_is_begun() -> None:
    door = Door(2)
    assert (await gatherer(door).begin(7, GENERAL, 10_000)).accepted == 2
    assert len(door.said) == 1
