"""The specification: what strategy, outcomes and timeout policy together lead to.

a = api_response, k = kafka_event. Read a cell at (how a stands, how k stands):

  wait    nothing is decided yet                                       WAIT
  hold    the strategy is out of reach, but required events can come   IMPOSSIBLE, policy waits
  done    completed, the strategy has what it wants                    COMPLETE
  part-k  completed and partial, k is missing                          IMPOSSIBLE, policy goes on
  warn-k  completed and partial with a warning, k is missing           IMPOSSIBLE, policy goes on
  time-k  ended as timeout, k is missing                               IMPOSSIBLE, policy ends it
  fail-k  ended as failed: an event it needed failed or was rejected   IMPOSSIBLE, policy ends it

Missing are all enabled events that were not received, needed or not. `required any` means that it
makes no difference which events are required. The policy applies as soon as the strategy is out of
reach, even while another event is still pending, unless its own answer depends on that one: hold.
Only `settled` is COMPLETE and partial at once.
"""

import itertools
import re
from collections.abc import Iterator, Mapping

import pytest

from core.waits.spec import ExpectedEvent, Source, Strategy, TimeoutPolicy, WaitSpec
from core.waits.strategy import Outcome, Status, StrategyResult, decide_ending, evaluate

TWO_EVENTS = """
all · onTimeout fail · required any
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         time-ak      fail-ak      fail-ak
a received   wait         done         time-k       fail-k       fail-k
a timed_out  time-ak      time-a       time-ak      fail-ak      fail-ak
a failed     fail-ak      fail-a       fail-ak      fail-ak      fail-ak
a rejected   fail-ak      fail-a       fail-ak      fail-ak      fail-ak

all · onTimeout continue · required ak
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         time-ak      fail-ak      fail-ak
a received   wait         done         time-k       fail-k       fail-k
a timed_out  time-ak      time-a       time-ak      fail-ak      fail-ak
a failed     fail-ak      fail-a       fail-ak      fail-ak      fail-ak
a rejected   fail-ak      fail-a       fail-ak      fail-ak      fail-ak

all · onTimeout continue · required a
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         hold         hold         hold
a received   wait         done         part-k       part-k       part-k
a timed_out  time-ak      time-a       time-ak      fail-ak      fail-ak
a failed     fail-ak      fail-a       fail-ak      fail-ak      fail-ak
a rejected   fail-ak      fail-a       fail-ak      fail-ak      fail-ak

all · onTimeout continue · required k
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         time-ak      fail-ak      fail-ak
a received   wait         done         time-k       fail-k       fail-k
a timed_out  hold         part-a       time-ak      fail-ak      fail-ak
a failed     hold         part-a       fail-ak      fail-ak      fail-ak
a rejected   hold         part-a       fail-ak      fail-ak      fail-ak

all · onTimeout continue · required none
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         part-ak      part-ak      part-ak
a received   wait         done         part-k       part-k       part-k
a timed_out  part-ak      part-a       part-ak      part-ak      part-ak
a failed     part-ak      part-a       part-ak      part-ak      part-ak
a rejected   part-ak      part-a       part-ak      part-ak      part-ak

all · onTimeout continue_with_partial · required any
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         warn-ak      warn-ak      warn-ak
a received   wait         done         warn-k       warn-k       warn-k
a timed_out  warn-ak      warn-a       warn-ak      warn-ak      warn-ak
a failed     warn-ak      warn-a       warn-ak      warn-ak      warn-ak
a rejected   warn-ak      warn-a       warn-ak      warn-ak      warn-ak

any · onTimeout fail · required any
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         done         wait         wait         wait
a received   done         done         done         done         done
a timed_out  wait         done         time-ak      fail-ak      fail-ak
a failed     wait         done         fail-ak      fail-ak      fail-ak
a rejected   wait         done         fail-ak      fail-ak      fail-ak

any · onTimeout continue · required any
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         done         wait         wait         wait
a received   done         done         done         done         done
a timed_out  wait         done         part-ak      part-ak      part-ak
a failed     wait         done         part-ak      part-ak      part-ak
a rejected   wait         done         part-ak      part-ak      part-ak

any · onTimeout continue_with_partial · required any
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         done         wait         wait         wait
a received   done         done         done         done         done
a timed_out  wait         done         warn-ak      warn-ak      warn-ak
a failed     wait         done         warn-ak      warn-ak      warn-ak
a rejected   wait         done         warn-ak      warn-ak      warn-ak

required_only · onTimeout fail · required ak
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         time-ak      fail-ak      fail-ak
a received   wait         done         time-k       fail-k       fail-k
a timed_out  time-ak      time-a       time-ak      fail-ak      fail-ak
a failed     fail-ak      fail-a       fail-ak      fail-ak      fail-ak
a rejected   fail-ak      fail-a       fail-ak      fail-ak      fail-ak

required_only · onTimeout continue · required ak
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         part-ak      part-ak      part-ak
a received   wait         done         part-k       part-k       part-k
a timed_out  part-ak      part-a       part-ak      part-ak      part-ak
a failed     part-ak      part-a       part-ak      part-ak      part-ak
a rejected   part-ak      part-a       part-ak      part-ak      part-ak

required_only · onTimeout continue_with_partial · required ak
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         warn-ak      warn-ak      warn-ak
a received   wait         done         warn-k       warn-k       warn-k
a timed_out  warn-ak      warn-a       warn-ak      warn-ak      warn-ak
a failed     warn-ak      warn-a       warn-ak      warn-ak      warn-ak
a rejected   warn-ak      warn-a       warn-ak      warn-ak      warn-ak

required_only · onTimeout fail · required a
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         wait         wait         wait
a received   done         done         done         done         done
a timed_out  time-ak      time-a       time-ak      time-ak      time-ak
a failed     fail-ak      fail-a       fail-ak      fail-ak      fail-ak
a rejected   fail-ak      fail-a       fail-ak      fail-ak      fail-ak

required_only · onTimeout continue · required a
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         wait         wait         wait
a received   done         done         done         done         done
a timed_out  part-ak      part-a       part-ak      part-ak      part-ak
a failed     part-ak      part-a       part-ak      part-ak      part-ak
a rejected   part-ak      part-a       part-ak      part-ak      part-ak

required_only · onTimeout continue_with_partial · required a
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         wait         wait         wait
a received   done         done         done         done         done
a timed_out  warn-ak      warn-a       warn-ak      warn-ak      warn-ak
a failed     warn-ak      warn-a       warn-ak      warn-ak      warn-ak
a rejected   warn-ak      warn-a       warn-ak      warn-ak      warn-ak

required_only · onTimeout fail · required k
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         done         time-ak      fail-ak      fail-ak
a received   wait         done         time-k       fail-k       fail-k
a timed_out  wait         done         time-ak      fail-ak      fail-ak
a failed     wait         done         time-ak      fail-ak      fail-ak
a rejected   wait         done         time-ak      fail-ak      fail-ak

required_only · onTimeout continue · required k
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         done         part-ak      part-ak      part-ak
a received   wait         done         part-k       part-k       part-k
a timed_out  wait         done         part-ak      part-ak      part-ak
a failed     wait         done         part-ak      part-ak      part-ak
a rejected   wait         done         part-ak      part-ak      part-ak

required_only · onTimeout continue_with_partial · required k
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         done         warn-ak      warn-ak      warn-ak
a received   wait         done         warn-k       warn-k       warn-k
a timed_out  wait         done         warn-ak      warn-ak      warn-ak
a failed     wait         done         warn-ak      warn-ak      warn-ak
a rejected   wait         done         warn-ak      warn-ak      warn-ak

custom ak · onTimeout fail · required any
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         time-ak      fail-ak      fail-ak
a received   wait         done         time-k       fail-k       fail-k
a timed_out  time-ak      time-a       time-ak      fail-ak      fail-ak
a failed     fail-ak      fail-a       fail-ak      fail-ak      fail-ak
a rejected   fail-ak      fail-a       fail-ak      fail-ak      fail-ak

custom ak · onTimeout continue · required any
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         time-ak      fail-ak      fail-ak
a received   wait         done         time-k       fail-k       fail-k
a timed_out  time-ak      time-a       time-ak      fail-ak      fail-ak
a failed     fail-ak      fail-a       fail-ak      fail-ak      fail-ak
a rejected   fail-ak      fail-a       fail-ak      fail-ak      fail-ak

custom ak · onTimeout continue_with_partial · required any
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         warn-ak      warn-ak      warn-ak
a received   wait         done         warn-k       warn-k       warn-k
a timed_out  warn-ak      warn-a       warn-ak      warn-ak      warn-ak
a failed     warn-ak      warn-a       warn-ak      warn-ak      warn-ak
a rejected   warn-ak      warn-a       warn-ak      warn-ak      warn-ak

custom a · onTimeout fail · required any
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         wait         wait         wait
a received   done         done         done         done         done
a timed_out  time-ak      time-a       time-ak      time-ak      time-ak
a failed     fail-ak      fail-a       fail-ak      fail-ak      fail-ak
a rejected   fail-ak      fail-a       fail-ak      fail-ak      fail-ak

custom a · onTimeout continue · required any
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         wait         wait         wait
a received   done         done         done         done         done
a timed_out  time-ak      time-a       time-ak      time-ak      time-ak
a failed     fail-ak      fail-a       fail-ak      fail-ak      fail-ak
a rejected   fail-ak      fail-a       fail-ak      fail-ak      fail-ak

custom a · onTimeout continue_with_partial · required any
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         wait         wait         wait         wait
a received   done         done         done         done         done
a timed_out  warn-ak      warn-a       warn-ak      warn-ak      warn-ak
a failed     warn-ak      warn-a       warn-ak      warn-ak      warn-ak
a rejected   warn-ak      warn-a       warn-ak      warn-ak      warn-ak

custom k · onTimeout fail · required any
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         done         time-ak      fail-ak      fail-ak
a received   wait         done         time-k       fail-k       fail-k
a timed_out  wait         done         time-ak      fail-ak      fail-ak
a failed     wait         done         time-ak      fail-ak      fail-ak
a rejected   wait         done         time-ak      fail-ak      fail-ak

custom k · onTimeout continue · required any
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         done         time-ak      fail-ak      fail-ak
a received   wait         done         time-k       fail-k       fail-k
a timed_out  wait         done         time-ak      fail-ak      fail-ak
a failed     wait         done         time-ak      fail-ak      fail-ak
a rejected   wait         done         time-ak      fail-ak      fail-ak

custom k · onTimeout continue_with_partial · required any
             k pending    k received   k timed_out  k failed     k rejected
a pending    wait         done         warn-ak      warn-ak      warn-ak
a received   wait         done         warn-k       warn-k       warn-k
a timed_out  wait         done         warn-ak      warn-ak      warn-ak
a failed     wait         done         warn-ak      warn-ak      warn-ak
a rejected   wait         done         warn-ak      warn-ak      warn-ak
"""

# quorum needs two of x, y and z; settled only wants nobody to be pending, whatever the policy.
THREE_EVENTS = """
                                  | quorum 2                       | settled
x           y           z         | fail       continue   partial  | any policy
pending     pending     pending   | wait       wait       wait     | wait
pending     pending     received  | wait       wait       wait     | wait
pending     pending     timed_out | wait       wait       wait     | wait
pending     pending     failed    | wait       wait       wait     | wait
pending     pending     rejected  | wait       wait       wait     | wait
pending     received    received  | done       done       done     | wait
pending     received    timed_out | wait       wait       wait     | wait
pending     received    failed    | wait       wait       wait     | wait
pending     received    rejected  | wait       wait       wait     | wait
pending     timed_out   timed_out | time-xyz   time-xyz   warn-xyz | wait
pending     timed_out   failed    | fail-xyz   fail-xyz   warn-xyz | wait
pending     timed_out   rejected  | fail-xyz   fail-xyz   warn-xyz | wait
pending     failed      failed    | fail-xyz   fail-xyz   warn-xyz | wait
pending     failed      rejected  | fail-xyz   fail-xyz   warn-xyz | wait
pending     rejected    rejected  | fail-xyz   fail-xyz   warn-xyz | wait
received    received    received  | done       done       done     | done
received    received    timed_out | done       done       done     | part-z
received    received    failed    | done       done       done     | part-z
received    received    rejected  | done       done       done     | part-z
received    timed_out   timed_out | time-yz    time-yz    warn-yz  | part-yz
received    timed_out   failed    | fail-yz    fail-yz    warn-yz  | part-yz
received    timed_out   rejected  | fail-yz    fail-yz    warn-yz  | part-yz
received    failed      failed    | fail-yz    fail-yz    warn-yz  | part-yz
received    failed      rejected  | fail-yz    fail-yz    warn-yz  | part-yz
received    rejected    rejected  | fail-yz    fail-yz    warn-yz  | part-yz
timed_out   timed_out   timed_out | time-xyz   time-xyz   warn-xyz | part-xyz
timed_out   timed_out   failed    | fail-xyz   fail-xyz   warn-xyz | part-xyz
timed_out   timed_out   rejected  | fail-xyz   fail-xyz   warn-xyz | part-xyz
timed_out   failed      failed    | fail-xyz   fail-xyz   warn-xyz | part-xyz
timed_out   failed      rejected  | fail-xyz   fail-xyz   warn-xyz | part-xyz
timed_out   rejected    rejected  | fail-xyz   fail-xyz   warn-xyz | part-xyz
failed      failed      failed    | fail-xyz   fail-xyz   warn-xyz | part-xyz
failed      failed      rejected  | fail-xyz   fail-xyz   warn-xyz | part-xyz
failed      rejected    rejected  | fail-xyz   fail-xyz   warn-xyz | part-xyz
rejected    rejected    rejected  | fail-xyz   fail-xyz   warn-xyz | part-xyz
"""

NAMES = {"a": "api_response", "k": "kafka_event", "x": "x", "y": "y", "z": "z"}
SOURCES = {"a": Source.API, "k": Source.KAFKA, "x": Source.API, "y": Source.API, "z": Source.KAFKA}
REQUIRED = {"any": ["ak", "a", "k", ""], "ak": ["ak"], "a": ["a"], "k": ["k"], "none": [""]}
TITLE = re.compile(r"(\w+)(?: (\w+))? · onTimeout (\w+) · required (\w+)")
KINDS = {
    (StrategyResult.COMPLETE, Status.COMPLETED, False, False): "done",
    (StrategyResult.COMPLETE, Status.COMPLETED, True, False): "part",
    (StrategyResult.IMPOSSIBLE, Status.COMPLETED, True, False): "part",
    (StrategyResult.IMPOSSIBLE, Status.COMPLETED, True, True): "warn",
    (StrategyResult.IMPOSSIBLE, Status.TIMEOUT, False, False): "time",
    (StrategyResult.IMPOSSIBLE, Status.FAILED, False, False): "fail",
}
GRIDS = [block.splitlines() for block in TWO_EVENTS.strip().split("\n\n")]
ROWS = THREE_EVENTS.strip("\n").splitlines()[2:]


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: grid[0])
def test_two_events(grid: list[str]) -> None:
    title, *table = grid
    for spec in specs_of(title):
        assert drawn(spec) == table


@pytest.mark.parametrize("row", ROWS)
def test_three_events(row: str) -> None:
    stands, quorum, settled = ([cell.strip() for cell in part.split()] for part in row.split("|"))
    outcomes = {name: Outcome(word) for name, word in zip("xyz", stands, strict=True)}
    for policy, cell in zip(TimeoutPolicy, quorum, strict=True):
        assert cell_of(three(Strategy.QUORUM, policy), outcomes) == cell
        assert [cell_of(three(Strategy.SETTLED, policy), outcomes)] == settled


@pytest.mark.parametrize("row", ROWS)
def test_three_events_may_change_places(row: str) -> None:
    stands = [Outcome(word) for word in row.partition("|")[0].split()]
    for strategy, policy in itertools.product((Strategy.QUORUM, Strategy.SETTLED), TimeoutPolicy):
        spec = three(strategy, policy)
        kinds = {
            cell_of(spec, dict(zip("xyz", order, strict=True))).partition("-")[0]
            for order in itertools.permutations(stands)
        }
        assert len(kinds) == 1


def test_the_table_is_complete() -> None:
    written = [
        (spec.strategy, spec.listed, spec.on_timeout, tuple(e.required for e in spec.events))
        for grid in GRIDS
        for spec in specs_of(grid[0])
    ]
    both, first, second = ("api_response", "kafka_event"), ("api_response",), ("kafka_event",)
    listed = {Strategy.CUSTOM: [both, first, second]}
    wanted = [
        (strategy, names, policy, required)
        for strategy in (Strategy.ALL, Strategy.ANY, Strategy.REQUIRED_ONLY, Strategy.CUSTOM)
        for names in listed.get(strategy, [()])
        for policy in TimeoutPolicy
        for required in itertools.product((True, False), repeat=2)
        # Configuration refuses required_only without a required event.
        if strategy is not Strategy.REQUIRED_ONLY or any(required)
    ]
    assert sorted(written) == sorted(wanted)
    assert len({tuple(sorted(row.partition("|")[0].split())) for row in ROWS}) == len(ROWS) == 35


def specs_of(title: str) -> Iterator[WaitSpec]:
    """The configurations that a title stands for."""
    words = TITLE.fullmatch(title)
    assert words, title
    strategy, listed, policy, required = words.groups()
    for choice in REQUIRED[required]:
        yield WaitSpec(
            events=expected("ak", choice),
            strategy=Strategy(strategy),
            listed=tuple(NAMES[letter] for letter in listed or ""),
            on_timeout=TimeoutPolicy(policy),
        )


def three(strategy: Strategy, policy: TimeoutPolicy) -> WaitSpec:
    quorum = 2 if strategy is Strategy.QUORUM else 0
    events = expected("xyz", "xz")
    return WaitSpec(events=events, strategy=strategy, quorum=quorum, on_timeout=policy)


def expected(letters: str, required: str) -> tuple[ExpectedEvent, ...]:
    return tuple(
        ExpectedEvent(name=NAMES[letter], source=SOURCES[letter], required=letter in required)
        for letter in letters
    )


def drawn(spec: WaitSpec) -> list[str]:
    """What the code does, as the table is written."""
    cells = [["", *(f"k {kafka}" for kafka in Outcome)]]
    for api in Outcome:
        stands = [{"api_response": api, "kafka_event": kafka} for kafka in Outcome]
        cells.append([f"a {api}", *(cell_of(spec, outcomes) for outcomes in stands)])
    return ["".join(f"{cell:<13}" for cell in line).rstrip() for line in cells]


def cell_of(spec: WaitSpec, outcomes: Mapping[str, Outcome]) -> str:
    stands = [outcomes[name] for name in spec.names]
    judgement, ending = evaluate(spec, stands), decide_ending(spec, stands)
    if ending is None:
        return {StrategyResult.WAIT: "wait", StrategyResult.IMPOSSIBLE: "hold"}[judgement]
    kind = KINDS[judgement, ending.status, ending.partial, ending.warning is not None]
    if kind != "done":
        assert ending.timed_out is (Outcome.TIMED_OUT in outcomes.values())
    letters = {name: letter for letter, name in NAMES.items()}
    missing = "".join(letters[name] for name in ending.missing)
    return f"{kind}-{missing}" if missing else kind
