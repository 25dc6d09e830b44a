"""Published in order, confirmed by the broker, then forgotten."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field

from actors.relay import Relay
from core.completion import Completion
from storage.outbox import OutgoingRow


@dataclass
class World:
    """An outbox and a broker that refuses some keys."""

    rows: list[OutgoingRow]
    refuses: set[str] = field(default_factory=set)
    gone: set[bytes] = field(default_factory=set)
    sent: list[str] = field(default_factory=list)

    async def upcoming(self, limit: int) -> list[OutgoingRow]:
        return self.rows[:limit]

    async def completions(self, rows: Sequence[OutgoingRow]) -> list[Completion | None]:
        return [None if row.wait_key in self.gone else _completion(row) for row in rows]

    async def confirm(self, outbox_ids: Sequence[int]) -> None:
        self.rows = [row for row in self.rows if row.outbox_id not in outbox_ids]

    async def publish(self, completion: Completion) -> Awaitable[object]:
        future = asyncio.get_running_loop().create_future()
        if completion.event_id in self.refuses:
            self.refuses.discard(completion.event_id)
            future.set_exception(OSError("no leader"))
        else:
            self.sent.append(completion.event_id)
            future.set_result(None)
        return future

    def relay(self) -> Relay:
        return Relay(self, self.publish, asyncio.sleep)


def _completion(row: OutgoingRow) -> Completion:
    return Completion(
        topic=row.topic,
        key=row.record_key,
        type=row.event_type,
        event_id=f"{row.record_key}{row.outbox_id}",
        value=b"{}",
        headers=(),
    )


def row(outbox_id: int, key: str) -> OutgoingRow:
    return OutgoingRow(outbox_id, 1, key.encode(), "done", key, "t", 0.0)


async def test_rows_leave_when_the_broker_has_them() -> None:
    world = World([row(1, "a"), row(2, "b")])
    relay = world.relay()
    assert await relay.publish_some() == 2
    assert (world.sent, world.rows, relay.tally.published) == (["a1", "b2"], [], 2)
    assert await relay.publish_some() == 0


async def test_after_a_failure_a_key_goes_again_in_its_order() -> None:
    world = World([row(1, "a"), row(2, "b"), row(3, "a")], refuses={"a1"})
    relay = world.relay()
    assert await relay.publish_some() == 1
    assert [r.outbox_id for r in world.rows] == [1, 3]
    assert await relay.publish_some() == 2
    assert world.sent[-2:] == ["a1", "a3"]
    assert relay.tally.failures == 1


async def test_a_wait_that_is_gone_has_nothing_to_say() -> None:
    world = World([row(1, "a")], gone={b"a"})
    relay = world.relay()
    assert await relay.publish_some() == 1
    assert (world.sent, relay.tally.vanished) == ([], 1)
