"""What a shard says before a correlation does, by the time that it has been there."""

import pytest
from msgspec.structs import replace

from actors.feed import Feeds
from actors.objections import REWATCH_WITHIN, Objections
from core.gather import Ask, spec_of
from core.messages import Abandon, Message, RefusalKind, Refused, Standing
from core.wait import Wait
from tests.unit.core.world import ADDRESS, START, World, cancel, offer, register

SPEC = spec_of([Ask(name="ext"), Ask(name="other")], 10.0)
LIMIT = 5
LEAVES = Abandon(address=ADDRESS, turn_id="a", feed="one")


def waiting(**fields: object) -> Wait:
    world = World()
    world.say(register(SPEC), START)
    return replace(world.waiting_or_ended, **fields)


def objections(feeds: Feeds, began: float = START - 60) -> Objections:
    return Objections(LIMIT, feeds, began)


@pytest.fixture
def feeds() -> Feeds:
    return Feeds(lambda: 0.0)


@pytest.mark.parametrize(
    ("began", "after", "objects"),
    [
        (START + 1, 0.0, True),
        (START + 1, REWATCH_WITHIN - 0.1, True),
        (START + 1, REWATCH_WITHIN, False),
        (START, 0.0, False),
        (START - 1, 0.0, False),
    ],
)
def test_of_waits_older_than_itself_a_shard_does_not_know_the_readers_at_first(
    feeds: Feeds, began: float, after: float, objects: bool
) -> None:
    objection = objections(feeds, began).to(waiting(), LEAVES, began + after)
    assert (isinstance(objection, Refused) and objection.kind is RefusalKind.OVERLOADED) is objects
    assert objects or objection is None


async def test_a_reader_elsewhere_keeps_a_wait(feeds: Feeds) -> None:
    wait = waiting()
    for feed in ("one", "two"):
        await feeds.listen(feed, [ADDRESS.key], [], 0)
    kept = objections(feeds).to(wait, LEAVES, START + 1)
    assert kept == Standing(status=wait.status, changed=False)
    assert objections(feeds).to(wait, replace(LEAVES, feed="two"), START + 1) is None


@pytest.mark.parametrize("message", [offer("e-1"), cancel(), register(SPEC)])
def test_nothing_speaks_against_what_counts(feeds: Feeds, message: Message) -> None:
    full = waiting(log_length=LIMIT)
    assert objections(feeds).to(full, message, START + 1) is None
