"""Laws that hold for every configuration and every sequence of messages."""

from itertools import pairwise, permutations

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.waits.messages import (
    Accept,
    Expire,
    Offer,
    OfferReply,
    RefusedReply,
    RegisterReply,
    Reply,
    StatusReply,
    Verdict,
    WaitMessage,
)
from core.waits.spec import ExpectedEvent, Source, Strategy, WaitSpec
from core.waits.state import Wait
from core.waits.strategy import Outcome, Status, StrategyResult, decide_ending, evaluate
from tests.unit.core.waits.builders import (
    START,
    SingleCorrelation,
    Turn,
    abandon,
    accept,
    as_column,
    cancel,
    expire,
    offer,
    register,
    reloaded,
    verdict_and_reason,
)
from tests.unit.core.waits.generate import crowds, fitting, offers, outcomes, specs
from tests.unit.core.waits.model import choices, satisfied

Step = WaitMessage | None
"""A message, or None for a restart of whoever owns the correlation."""

ENDS_WITH_THE_LAST = {Strategy.ALL, Strategy.SETTLED}

MOVES = st.lists(
    st.tuples(st.integers(0, 1000), st.sampled_from((0.0, 0.25, 1.1, 1.5, 2.0))), max_size=14
)


@st.composite
def one_for_each(
    draw: st.DrawFn, outcome: st.SearchStrategy[Outcome]
) -> tuple[WaitSpec, list[Offer]]:
    """A configuration, and for some of its events one offer that suits it best."""
    spec = draw(specs)
    some = [event for event in spec.events if draw(st.booleans())]
    sent = [fitting(event, f"event-{event.name}", draw(outcome)) for event in some]
    favourites = [choices(spec, event)[0] for event in sent]
    assume(len(set(favourites)) == len(favourites))
    return spec, sent


@st.composite
def stories(draw: st.DrawFn) -> tuple[WaitSpec, list[tuple[float, Step]]]:
    """Everything that can happen to one correlation, with the time it happens at."""
    spec = draw(specs)
    crowd = draw(crowds(spec))
    asked = draw(st.sampled_from((b"", b'{"asks":[]}')))
    steps: list[Step] = [register(spec, asked=asked), *crowd]
    steps += [replace(event, turn_id=f"again-{event.event_id}") for event in crowd]
    steps += [*crowd, register(spec), register(spec, "reg-2"), register(spec, "reg-3", "node-2")]
    steps += [accept(name) for name in spec.names]
    steps += [None, None, cancel(), abandon(), expire(0.0), expire(START + draw(st.floats(0, 12)))]
    now, told = START, []
    for number, pause in draw(MOVES):
        now += pause
        told.append((now, steps[number % len(steps)]))
    return spec, told


def tell(world: SingleCorrelation, story: list[tuple[float, Step]]) -> None:
    for now, step in story:
        if step is None:
            world.restart()
        else:
            world.say(step, now)


def at_once(spec: WaitSpec, sent: list[Offer] | tuple[Offer, ...]) -> SingleCorrelation:
    """Register, then offer one after another before any deadline."""
    world = SingleCorrelation()
    world.say(register(spec), START)
    for index, event in enumerate(sent, start=1):
        world.say(event, START + index / 100)
    return world


def stands(wait: Wait) -> list[Outcome]:
    return [mark.outcome for mark in wait.marks]


def result(world: SingleCorrelation) -> tuple[Status, dict[str, Outcome], dict[str, object]]:
    wait = world.waiting_or_ended
    return wait.status, wait.outcomes, world.output


# (a) Order does not matter.


@given(one_for_each(st.just(Outcome.RECEIVED)))
def test_all_and_settled_end_the_same_in_every_order(case: tuple[WaitSpec, list[Offer]]) -> None:
    spec, sent = case
    assume(spec.strategy in ENDS_WITH_THE_LAST)
    expected = result(at_once(spec, sent))
    for order in permutations(sent):
        assert result(at_once(spec, order)) == expected


@given(one_for_each(st.just(Outcome.RECEIVED)))
def test_first_wins_only_in_which_events_were_in_time(case: tuple[WaitSpec, list[Offer]]) -> None:
    """`any`, `quorum`, `required_only` and `custom` may end before the last event.

    Then it depends on the order which of the others were still in time. It never does whether the
    wait ends, nor what the events it needed brought.
    """
    spec, sent = case
    names = {choices(spec, event)[0] for event in sent}
    enough = satisfied(spec, names)
    for order in permutations(sent):
        world = at_once(spec, order)
        wait = world.waiting_or_ended
        received = {name for name, o in wait.outcomes.items() if o is Outcome.RECEIVED}
        assert received <= names
        assert wait.status is (Status.COMPLETED if enough else Status.WAITING)
        assert satisfied(spec, received) == enough
        if not enough:
            assert received == names
        elif spec.strategy in {Strategy.ANY, Strategy.QUORUM} and spec.events:
            assert len(received) == max(spec.quorum, 1)
            assert received == {choices(spec, event)[0] for event in order[: len(received)]}


@given(one_for_each(outcomes))
def test_failures_lead_to_the_same_judgement_in_every_order(
    case: tuple[WaitSpec, list[Offer]],
) -> None:
    """The first impossibility ends a wait, so only the events after it depend on the order."""
    spec, sent = case
    ended = [at_once(spec, order).waiting_or_ended for order in permutations(sent)]
    assert len({evaluate(spec, stands(wait)) for wait in ended}) == 1
    assert len({wait.status for wait in ended}) == 1
    if evaluate(spec, stands(ended[0])) is StrategyResult.WAIT:
        assert all(wait.outcomes == ended[0].outcomes for wait in ended)


@given(specs.flatmap(lambda spec: st.tuples(st.just(spec), crowds(spec, most=4))))
def test_several_events_for_one_place_first_wins(case: tuple[WaitSpec, list[Offer]]) -> None:
    """Where two events fit one place, whichever comes first has it. What is decided is still sound:

    each event holds at most one place, one that it fits, and the wait is judged by the places.
    """
    spec, sent = case
    by_id = {event.event_id: event for event in sent}
    for order in permutations(sent):
        wait = at_once(spec, order).waiting_or_ended
        holders = [mark.event_id for mark in wait.marks if mark.event_id]
        assert len(set(holders)) == len(holders)
        for event, mark in zip(spec.events, wait.marks, strict=True):
            assert not mark.event_id or event.name in choices(spec, by_id[mark.event_id])
        waiting = decide_ending(spec, stands(wait)) is None
        assert waiting is (wait.status is Status.WAITING)


@given(st.permutations(["risk", "ext"]))
def test_a_particular_event_leaves_the_general_place_free(order: list[str]) -> None:
    """A callback of `risk` fits both places, one of `ext` only the first."""
    spec = WaitSpec(
        events=(
            ExpectedEvent(name="api_response", source=Source.API),
            ExpectedEvent(name="risk", source=Source.API, label="risk"),
        )
    )
    wait = at_once(spec, [offer(name, label=name) for name in order]).waiting_or_ended
    assert wait.status is Status.COMPLETED
    assert [mark.event_id for mark in wait.marks] == ["ext", "risk"]


# (b) What is over is over.


@given(stories(), st.data())
def test_an_ended_wait_never_changes(
    case: tuple[WaitSpec, list[tuple[float, Step]]], data: st.DataObject
) -> None:
    spec, story = case
    world = SingleCorrelation()
    tell(world, story)
    later = START + 100
    world.say(register(spec), START)
    end: WaitMessage = cancel() if data.draw(st.booleans()) else expire(later)
    world.say(end, START)
    before = world.waiting_or_ended
    assert before.ending is not None
    extra = data.draw(st.lists(offers(spec, "extra"), max_size=3))
    tell(world, [(later, step) for step in (*extra, cancel("c-2"), None, expire(later + 1))])
    tell(world, story)
    after = world.waiting_or_ended
    assert (after.status, after.marks, after.ending) == (
        before.status,
        before.marks,
        before.ending,
    )


# (c) Once, and in time.


@given(stories())
def test_nothing_ends_a_wait_twice_or_leaves_it_past_its_deadline(
    case: tuple[WaitSpec, list[tuple[float, Step]]],
) -> None:
    spec, story = case
    world = SingleCorrelation()
    for now, step in story:
        tell(world, [(now, step)])
        if world.wait is not None and isinstance(step, Expire):
            overdue = max(now, step.at) >= world.wait.expires_at
            assert not overdue or world.wait.status is not Status.WAITING
    world.say(register(spec), START)
    world.restart()
    world.say(expire(world.waiting_or_ended.expires_at), START)
    assert world.waiting_or_ended.status is not Status.WAITING
    assert sum(map(ends, world.turns)) == 1


def ends(turn: Turn) -> bool:
    """Whether this turn is the one that ended the wait."""
    before = turn.before.ending if turn.before else None
    after = turn.decision.wait.ending if turn.decision.wait else None
    return before is None and after is not None


@given(specs, st.floats(1_500_000_000, 4_000_000_000), st.floats(0.001, 90 * 86_400))
def test_row_and_memory_agree_on_every_deadline(spec: WaitSpec, now: float, timeout: float) -> None:
    """The timer reads deadlines from columns; one that has passed there must have passed here."""
    world = SingleCorrelation()
    world.say(register(replace(spec, timeout=timeout)), now)
    wait = world.waiting_or_ended
    again = reloaded(wait)
    assert again == wait
    assert again.due_at == as_column(wait.due_at)
    assert again.expires_at == as_column(wait.expires_at)
    world.say(expire(as_column(wait.expires_at)), now - 1)
    assert world.waiting_or_ended.status is not Status.WAITING


# (d) Versions and sequence numbers.


@given(stories())
def test_versions_and_sequence_numbers_only_grow(
    case: tuple[WaitSpec, list[tuple[float, Step]]],
) -> None:
    _, story = case
    world = SingleCorrelation()
    tell(world, story)
    seqs: list[int] = []
    for turn in world.turns:
        before, after = turn.before, turn.decision.wait
        if after is None:
            assert before is None
            continue
        if before is None:
            assert after.version == 1
        elif after != before:
            assert after.version > before.version
            # A promise is kept with its mark; all else takes a place in the log.
            assert (after.log_length > before.log_length) is not isinstance(turn.message, Accept)
        seqs += sorted(numbers(turn))
        assert after.log_length == (seqs[-1] if seqs else 0)
    assert all(one < other for one, other in pairwise(seqs))
    assert seqs == list(range(1, len(seqs) + 1))


def numbers(turn: Turn) -> list[int]:
    """The places in the log that a turn took: its lines, and the end if it came."""
    seqs = [entry.seq for entry in turn.decision.entries]
    assert all(one < other for one, other in pairwise(seqs))
    if ends(turn) and turn.decision.wait and turn.decision.wait.ending:
        seqs.append(turn.decision.wait.ending.seq)
    return seqs


# (e) Asking twice.


@given(stories())
def test_a_message_asked_twice_is_answered_and_done_once(
    case: tuple[WaitSpec, list[tuple[float, Step]]],
) -> None:
    """A retry of the same request changes no mark and no ending, and hears the same verdict.

    An event that holds no place is not remembered by the state. A retry of it takes another number,
    but its line has the same event id, which the log keeps once.
    """
    _, story = case
    world = SingleCorrelation()
    for now, step in story:
        if step is None:
            world.restart()
            continue
        first = world.say(step, now)
        state, lines, parked = world.wait, dict(world.log), dict(world.inbox)
        second = world.say(step, now)
        assert verdict_of(second) == verdict_of(first)
        assert (world.log, world.inbox) == (lines, parked)
        if logged_only(first):
            assert judgement_of(world.wait) == judgement_of(state)
        else:
            assert world.wait == state


@given(stories(), stories())
def test_a_matched_event_stays_matched_for_its_sender(
    case: tuple[WaitSpec, list[tuple[float, Step]]],
    later: tuple[WaitSpec, list[tuple[float, Step]]],
) -> None:
    """However late the retry comes, and whatever happened in between."""
    _, story = case
    world = SingleCorrelation()
    tell(world, story)
    matched = [
        turn.message
        for turn in world.turns
        if isinstance(turn.decision.reply, OfferReply)
        and turn.decision.reply.verdict is Verdict.MATCHED
    ]
    tell(world, later[1])
    for message in matched:
        state = world.wait
        assert verdict_of(world.say(message, START + 50)) is Verdict.MATCHED
        assert world.wait == state


def verdict_of(reply: Reply) -> object:
    match reply:
        case OfferReply():
            return reply.verdict
        case RegisterReply():
            return reply.created, reply.status
        case StatusReply():
            return reply.status
        case RefusedReply():
            return reply.kind


def logged_only(reply: Reply) -> bool:
    unplaced = {Verdict.LATE, Verdict.DUPLICATE}
    return isinstance(reply, OfferReply) and reply.verdict in unplaced


def judgement_of(wait: Wait | None) -> object:
    return wait and (wait.status, wait.marks, wait.ending)


# (f) Early events.


@given(specs.flatmap(lambda spec: st.tuples(st.just(spec), crowds(spec))), st.data())
def test_early_events_end_like_events_in_time(
    case: tuple[WaitSpec, list[Offer]], data: st.DataObject
) -> None:
    """The registration may come at any point of the sequence."""
    spec, sent = case
    in_time = at_once(spec, sent)
    early = SingleCorrelation()
    point = data.draw(st.integers(0, len(sent)))
    for index, event in enumerate(sent[:point]):
        reply = early.say(event, START - 60 + index)
        assert verdict_and_reason(reply)[0] is Verdict.BUFFERED
    early.say(register(spec), START)
    for index, event in enumerate(sent[point:]):
        early.say(event, START + index / 100)
    assert result(early) == result(in_time)
    assert {entry.event_id: entry.kind for entry in early.log.values()} == {
        entry.event_id: entry.kind for entry in in_time.log.values()
    }
    assert early.inbox.keys() == in_time.inbox.keys()
    assert all(event.verdict is Verdict.REJECTED for event in early.inbox.values())
