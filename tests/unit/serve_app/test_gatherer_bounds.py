"""A gather whose calls nobody has room for is not begun."""

from typing import Any

import pytest

from core.config import Config
from core.errors import OverloadedError
from core.gather import Errand
from core.judgement import Status
from core.messages import Cancel, Message, Opened, Register, Reply, Standing
from core.tokens import CALLBACK, STREAM
from serve_app.auth import Tokens
from serve_app.gatherer import Gatherer
from tests.unit.serve_app.gather_world import GENERAL


class Door:
    """Correlations that take everything, and pools that are full or not."""

    def __init__(self, agreed: int | None) -> None:
        self.config = Config(dsn="")
        self.agreed = agreed
        self.said: list[Message] = []

    async def send(self, message: Message) -> Reply:
        self.said.append(message)
        if isinstance(message, Register):
            return Opened(
                created=True, status=Status.WAITING, version=1, opened_at=1.0, expires_at=11.0
            )
        return Standing(status=Status.CANCELLED, changed=True)

    async def begin_calls(self, errand: Errand, patience: float) -> int | None:
        assert (len(errand.calls), patience > 0) == (3, True)
        return self.agreed


async def secrets(_: str, __: bytes) -> list[bytes]:
    return [b"k" * 32]


def gatherer(door: Any) -> Gatherer:
    tokens = {purpose: Tokens(secrets, purpose) for purpose in (CALLBACK, STREAM)}
    return Gatherer(door, door, tokens)


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
    assert (await gatherer(door).begin(7, GENERAL, 10_000)).agreed == 2
    assert len(door.said) == 1
