"""What a shard says before a correlation does, by the time that it has been there."""

import pytest
from msgspec.structs import replace

from actors.messaging.change_feed import Feeds
from actors.waits.guard import REWATCH_WITHIN, Objections
from core.gathers.gather import Ask, spec_of
from core.waits.messages import Abandon, Message, RefusalKind, Refused, Standing, Verdict
from core.waits.state import Wait
from tests.unit.core.waits.builders import ADDRESS, START, World, cancel, offer, register

SPEC = spec_of([Ask(name="ext"), Ask(name="other")], 10.0)
LIMIT = 5
GRACE = 30.0
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


def test_a_full_log_refuses_for_good_what_would_only_be_logged(feeds: Feeds) -> None:
    world = World()
    world.say(register(SPEC), START)
    world.say(offer("e-1"), START + 1)
    full = replace(world.waiting_or_ended, log_length=LIMIT)
    refused = objections(feeds).to(full, offer("e-2"), START + 2)
    assert isinstance(refused, Refused)
    assert (refused.kind, refused.verdict) == (RefusalKind.FULL, Verdict.DUPLICATE)
    assert not refused.is_passing
    late = objections(feeds).to(full, offer("e-2", label="other"), START + 60)
    assert isinstance(late, Refused)
    assert late.verdict is Verdict.LATE


@pytest.mark.parametrize("message", [offer("e-1"), cancel(), register(SPEC)])
def test_nothing_speaks_against_what_counts(feeds: Feeds, message: Message) -> None:
    full = waiting(log_length=LIMIT)
    assert objections(feeds).to(full, message, START + 1) is None


@pytest.mark.parametrize(
    ("after", "by_token", "refused"),
    [
        (GRACE - 0.1, True, False),
        (GRACE, True, True),
        (GRACE, False, False),
    ],
)
def test_a_token_ends_with_its_wait_and_a_grace(
    feeds: Feeds, after: float, by_token: bool, refused: bool
) -> None:
    world = World()
    world.say(register(SPEC), START)
    world.say(cancel(), START + 1)
    message = replace(offer("e-1"), by_token=by_token)
    said = Objections(LIMIT, feeds, START - 60, GRACE)
    objection = said.to(world.waiting_or_ended, message, START + 1 + after)
    assert isinstance(objection, Refused) is refused
    assert not isinstance(objection, Refused) or objection.kind is RefusalKind.TOKEN_EXPIRED


def test_a_token_lasts_while_its_wait_does(feeds: Feeds) -> None:
    message = replace(offer("e-1"), by_token=True)
    assert Objections(LIMIT, feeds, START - 60, 0.1).to(waiting(), message, START + 5) is None
