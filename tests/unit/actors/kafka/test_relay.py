"""Published in order, confirmed by the broker, then forgotten."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field

import pytest
from aiokafka.errors import MessageSizeTooLargeError, UnknownTopicOrPartitionError

from actors.kafka import topic_batch
from actors.kafka.relay import BATCH, Relay
from actors.kafka.topic_batch import PreparedMessage
from core.waits.completion_event import CompletionMessage
from storage.kafka.outbox import OutgoingRow


@dataclass
class World:
    """An outbox and a broker that fails once for some events and always for others."""

    rows: list[OutgoingRow]
    refuses: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    too_large: set[str] = field(default_factory=set)
    unmade: set[bytes] = field(default_factory=set)
    never_answers: set[str] = field(default_factory=set)
    now: float = 0.0
    gone: set[bytes] = field(default_factory=set)
    sent: list[str] = field(default_factory=list)
    at_once: int = BATCH

    async def upcoming(self, after: int, limit: int, without: Sequence[str]) -> list[OutgoingRow]:
        found = [r for r in self.rows if r.outbox_id > after and r.topic not in without]
        return found[:limit]

    async def messages(self, rows: Sequence[OutgoingRow]) -> list[PreparedMessage]:
        return [self._made(row) for row in rows[: self.at_once]]

    def _made(self, row: OutgoingRow) -> PreparedMessage:
        if row.wait_key in self.unmade:
            return ValueError("cannot be told")
        return None if row.wait_key in self.gone else _completion(row)

    async def confirm(self, outbox_ids: Sequence[int]) -> None:
        self.rows = [row for row in self.rows if row.outbox_id not in outbox_ids]

    async def publish(self, completion: CompletionMessage) -> Awaitable[object]:
        future = asyncio.get_running_loop().create_future()
        if completion.topic in self.missing:
            raise UnknownTopicOrPartitionError
        if completion.event_id in self.too_large:
            raise MessageSizeTooLargeError
        if completion.topic in self.never_answers:
            return future
        if completion.event_id in self.refuses:
            self.refuses.discard(completion.event_id)
            future.set_exception(OSError("no leader"))
        else:
            self.sent.append(completion.event_id)
            future.set_result(None)
        return future

    def relay(self) -> Relay:
        return Relay(self, self.publish, asyncio.sleep, lambda: self.now)


def _completion(row: OutgoingRow) -> CompletionMessage:
    return CompletionMessage(
        topic=row.topic,
        key=row.record_key,
        type=row.event_type,
        event_id=f"{row.record_key}{row.outbox_id}",
        value=b"{}",
        headers=(),
    )


def row(outbox_id: int, key: str, topic: str = "done") -> OutgoingRow:
    return OutgoingRow(outbox_id, 1, key.encode(), topic, key, "t", 0.0)


async def test_rows_leave_when_the_broker_has_them() -> None:
    world = World([row(1, "a"), row(2, "b")])
    relay = world.relay()
    assert await relay.publish_some() == 2
    assert (world.sent, world.rows, relay.counters.published) == (["a1", "b2"], [], 2)
    assert await relay.publish_some() == 0


async def test_after_a_failure_a_key_goes_again_in_its_order() -> None:
    world = World([row(1, "a"), row(2, "b"), row(3, "a")], refuses={"a1"})
    relay = world.relay()
    assert await relay.publish_some() == 1
    assert [r.outbox_id for r in world.rows] == [1, 3]
    assert (await relay.publish_some(), relay.counters.held_topics) == (0, 1)  # not at once
    world.now += 1
    assert await relay.publish_some() == 2
    assert world.sent[-2:] == ["a1", "a3"]
    assert (relay.counters.failures, relay.counters.held_topics) == (1, 0)


async def test_a_wait_that_is_gone_has_nothing_to_say() -> None:
    world = World([row(1, "a")], gone={b"a"})
    relay = world.relay()
    assert await relay.publish_some() == 1
    assert (world.sent, relay.counters.vanished) == ([], 1)


async def test_a_topic_that_takes_nothing_holds_up_no_other() -> None:
    bad = [row(n, f"x{n}", "gone") for n in range(1, 1 + 2 * BATCH)]
    world = World([*bad, row(5_000, "a"), row(5_001, "b")], missing={"gone"})
    relay = world.relay()
    while len(world.rows) > len(bad):
        await relay.publish_some()
    assert world.sent == ["a5000", "b5001"]  # each once
    assert (relay.counters.held_topics, relay.counters.failures) == (1, 1)
    world.missing.clear()
    world.now += 10
    while world.rows:
        await relay.publish_some()
    assert (len(world.sent), relay.counters.held_topics) == (2 + len(bad), 0)


async def test_events_that_their_topic_will_not_take_hold_up_no_other_and_stay() -> None:
    bad = [row(n, f"x{n}") for n in range(1, 1 + BATCH)]
    world = World([*bad, row(5_000, "a"), row(5_001, "b")])
    world.too_large = {f"x{n}{n}" for n in range(1, 1 + BATCH)}
    world.unmade = {b"x7"}
    relay = world.relay()
    while len(world.rows) > len(bad):
        await relay.publish_some()
    assert world.sent == ["a5000", "b5001"]
    assert (relay.counters.refused, relay.counters.held_topics) == (BATCH, 0)
    tried = relay.counters.failures
    await relay.publish_some()
    assert relay.counters.failures == tried  # not again and again
    world.too_large.clear()
    world.unmade.clear()
    world.now += 61
    while world.rows:
        await relay.publish_some()
    assert relay.counters.refused == 0


async def test_what_follows_a_refused_event_of_its_key_waits_behind_it() -> None:
    world = World([row(1, "a"), row(2, "a"), row(3, "b")], too_large={"a1"})
    relay = world.relay()
    await relay.publish_some()
    assert world.sent == ["b3"]
    assert [r.outbox_id for r in world.rows] == [1, 2]


async def test_a_topic_that_never_answers_is_left_alone_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_batch, "CONFIRM_WITHIN", 0.05)
    world = World([row(1, "a", "mute"), row(2, "b")], never_answers={"mute"})
    relay = world.relay()
    while not relay.counters.held_topics:
        await relay.publish_some()
    assert world.sent == ["b2"]
    assert [r.outbox_id for r in world.rows] == [1]


async def test_what_is_too_large_together_is_told_in_parts_and_in_order() -> None:
    """One that is refused stays behind; the others go on past it, part by part."""
    world = World([row(n, f"k{n}") for n in range(1, 10)], at_once=2)
    world.too_large = {_completion(world.rows[0]).event_id}
    relay = world.relay()
    expected = [_completion(row).event_id for row in world.rows[1:]]
    for _ in range(10):
        await relay.publish_some()
    assert world.sent == expected
    assert len(world.rows) == 1


async def test_a_broker_that_says_nothing_stalls_it_until_something_is_settled() -> None:
    world = World([row(1, "a", "silent")], never_answers={"silent"})
    relay = world.relay()
    assert await relay.publish_some() == 0
    world.now += 25
    assert relay.progress.stalled_seconds == 25
    world.rows.append(row(2, "b"))
    assert await relay.publish_some() == 1
    assert relay.progress.stalled_seconds == 0
    for _, task in relay._batches.values():
        task.cancel()
