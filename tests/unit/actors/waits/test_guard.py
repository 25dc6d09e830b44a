"""What a shard says before a correlation does, by the time that it has been there."""

import pytest
from msgspec.structs import replace

from actors.messaging.change_feed import ChangeFeeds
from actors.waits.guard import REWATCH_WITHIN, MessageGuard
from core.gathers.gather import Question, wait_spec_of
from core.waits.messages import (
    Abandon,
    RefusalKind,
    RefusedReply,
    StatusReply,
    Verdict,
    WaitMessage,
)
from core.waits.state import Wait
from tests.unit.core.waits.builders import (
    ADDRESS,
    START,
    SingleCorrelation,
    cancel,
    offer,
    register,
)

SPEC = wait_spec_of([Question(name="ext"), Question(name="other")], 10.0)
LIMIT = 5
GRACE = 30.0
LEAVES = Abandon(address=ADDRESS, turn_id="a", feed="one")


def waiting(**fields: object) -> Wait:
    world = SingleCorrelation()
    world.say(register(SPEC), START)
    return replace(world.waiting_or_ended, **fields)


def objections(feeds: ChangeFeeds, began: float = START - 60) -> MessageGuard:
    return MessageGuard(LIMIT, feeds, began)


@pytest.fixture
def feeds() -> ChangeFeeds:
    return ChangeFeeds(lambda: 0.0)


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
    feeds: ChangeFeeds, began: float, after: float, objects: bool
) -> None:
    objection = objections(feeds, began).check(waiting(), LEAVES, began + after)
    assert (
        isinstance(objection, RefusedReply) and objection.kind is RefusalKind.OVERLOADED
    ) is objects
    assert objects or objection is None


async def test_a_reader_elsewhere_keeps_a_wait(feeds: ChangeFeeds) -> None:
    wait = waiting()
    for feed in ("one", "two"):
        await feeds.listen(feed, [ADDRESS.key], [], 0)
    kept = objections(feeds).check(wait, LEAVES, START + 1)
    assert kept == StatusReply(status=wait.status, changed=False)
    assert objections(feeds).check(wait, replace(LEAVES, feed="two"), START + 1) is None


def test_a_full_log_refuses_for_good_what_would_only_be_logged(feeds: ChangeFeeds) -> None:
    world = SingleCorrelation()
    world.say(register(SPEC), START)
    world.say(offer("e-1"), START + 1)
    full = replace(world.waiting_or_ended, log_length=LIMIT)
    refused = objections(feeds).check(full, offer("e-2"), START + 2)
    assert isinstance(refused, RefusedReply)
    assert (refused.kind, refused.verdict) == (RefusalKind.FULL, Verdict.DUPLICATE)
    assert not refused.is_transient
    late = objections(feeds).check(full, offer("e-2", label="other"), START + 60)
    assert isinstance(late, RefusedReply)
    assert late.verdict is Verdict.LATE


@pytest.mark.parametrize("message", [offer("e-1"), cancel(), register(SPEC)])
def test_nothing_speaks_against_what_counts(feeds: ChangeFeeds, message: WaitMessage) -> None:
    full = waiting(log_length=LIMIT)
    assert objections(feeds).check(full, message, START + 1) is None


@pytest.mark.parametrize(
    ("after", "by_token", "refused"),
    [
        (GRACE - 0.1, True, False),
        (GRACE, True, True),
        (GRACE, False, False),
    ],
)
def test_a_token_ends_with_its_wait_and_a_grace(
    feeds: ChangeFeeds, after: float, by_token: bool, refused: bool
) -> None:
    world = SingleCorrelation()
    world.say(register(SPEC), START)
    world.say(cancel(), START + 1)
    message = replace(offer("e-1"), by_token=by_token)
    said = MessageGuard(LIMIT, feeds, START - 60, GRACE)
    objection = said.check(world.waiting_or_ended, message, START + 1 + after)
    assert isinstance(objection, RefusedReply) is refused
    assert not isinstance(objection, RefusedReply) or objection.kind is RefusalKind.TOKEN_EXPIRED


def test_a_token_lasts_while_its_wait_does(feeds: ChangeFeeds) -> None:
    message = replace(offer("e-1"), by_token=True)
    assert MessageGuard(LIMIT, feeds, START - 60, 0.1).check(waiting(), message, START + 5) is None
