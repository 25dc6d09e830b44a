"""Scenarios come from a seed, and have in them all that callers do."""

import json
from collections import Counter

from tools.chaos.scenario import ChaosScenario, RequestChannel, ScenarioShape, make_scenario

SCENARIOS = [make_scenario("run", 7, number) for number in range(2_000)]


def steps(scenario: ChaosScenario) -> list[tuple[RequestChannel, str]]:
    return [(step.channel, step.event_id) for wave in scenario.waves for step in wave]


def test_the_same_seed_tells_the_same_story() -> None:
    assert make_scenario("run", 7, 3) == SCENARIOS[3]
    assert [make_scenario("run", 8, n) for n in range(20)] != SCENARIOS[:20]


def test_every_story_has_what_its_shape_needs() -> None:
    for scenario in SCENARIOS:
        channels = {channel for channel, _ in steps(scenario)}
        assert (RequestChannel.REGISTER in channels) is (scenario.shape is not ScenarioShape.ORPHAN)
        assert RequestChannel.API in channels
        assert (RequestChannel.KAFKA in channels) is (
            scenario.shape is not ScenarioShape.UNANSWERED
        )


def test_no_two_events_share_an_id_unless_they_are_the_same_event() -> None:
    ids = Counter(
        event_id for scenario in SCENARIOS for _, event_id in set(steps(scenario)) if event_id
    )
    assert set(ids.values()) == {1}


def test_everything_that_callers_do_happens() -> None:
    firsts = Counter(
        steps(scenario)[0][0]
        for scenario in SCENARIOS
        if scenario.shape is not ScenarioShape.ORPHAN
    )
    assert set(firsts) == set(RequestChannel), "some events come before their wait"
    assert any(len(set(steps(s))) < len(steps(s)) for s in SCENARIOS), "some are sent twice"
    assert any(len(wave) > 1 for scenario in SCENARIOS for wave in scenario.waves), "some at once"
    places = {step.ids_in_body for s in SCENARIOS for wave in s.waves for step in wave}
    assert places == {True, False}
    assert set(ScenarioShape) == {scenario.shape for scenario in SCENARIOS}


def test_some_executions_share_a_correlation_and_none_an_address() -> None:
    assert len({scenario.scoped_id for scenario in SCENARIOS}) == len(SCENARIOS)
    shared = Counter(scenario.correlation_id for scenario in SCENARIOS)
    assert set(shared.values()) == {1, 2}


def test_an_event_says_whose_it_is_wherever_its_ids_are() -> None:
    for scenario in SCENARIOS[:50]:
        for step in (step for wave in scenario.waves for step in wave if step.event_id):
            path, headers, raw = scenario.event_request(step)
            body = json.loads(raw)
            assert (body["of"], body["id"]) == (scenario.scoped_id, step.event_id)
            assert headers["X-Event-Id"] == step.event_id
            ids = body if step.ids_in_body else {k.lower(): v for k, v in headers.items()}
            found = [value for name, value in ids.items() if "execution" in name]
            assert found == [scenario.execution_id]
            assert path.startswith("/api/internal/")
