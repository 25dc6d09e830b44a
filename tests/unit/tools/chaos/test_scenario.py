"""Stories come from a seed, and have in them all that callers do."""

import json
from collections import Counter

from tools.chaos.scenario import ChaosScenario, RequestChannel, ScenarioShape, make_scenario

STORIES = [make_scenario("run", 7, number) for number in range(2_000)]


def steps(story: ChaosScenario) -> list[tuple[RequestChannel, str]]:
    return [(step.door, step.event_id) for wave in story.waves for step in wave]


def test_the_same_seed_tells_the_same_story() -> None:
    assert make_scenario("run", 7, 3) == STORIES[3]
    assert [make_scenario("run", 8, n) for n in range(20)] != STORIES[:20]


def test_every_story_has_what_its_shape_needs() -> None:
    for story in STORIES:
        doors = {door for door, _ in steps(story)}
        assert (RequestChannel.REGISTER in doors) is (story.shape is not ScenarioShape.ORPHAN)
        assert RequestChannel.API in doors
        assert (RequestChannel.KAFKA in doors) is (story.shape is not ScenarioShape.UNANSWERED)


def test_no_two_events_share_an_id_unless_they_are_the_same_event() -> None:
    ids = Counter(event_id for story in STORIES for _, event_id in set(steps(story)) if event_id)
    assert set(ids.values()) == {1}


def test_everything_that_callers_do_happens() -> None:
    firsts = Counter(
        steps(story)[0][0] for story in STORIES if story.shape is not ScenarioShape.ORPHAN
    )
    assert set(firsts) == set(RequestChannel), "some events come before their wait"
    assert any(len(set(steps(s))) < len(steps(s)) for s in STORIES), "some are sent twice"
    assert any(len(wave) > 1 for story in STORIES for wave in story.waves), "some at once"
    places = {step.ids_in_body for s in STORIES for wave in s.waves for step in wave}
    assert places == {True, False}
    assert set(ScenarioShape) == {story.shape for story in STORIES}


def test_some_executions_share_a_correlation_and_none_an_address() -> None:
    assert len({story.scoped_id for story in STORIES}) == len(STORIES)
    shared = Counter(story.correlation_id for story in STORIES)
    assert set(shared.values()) == {1, 2}


def test_an_event_says_whose_it_is_wherever_its_ids_are() -> None:
    for story in STORIES[:50]:
        for step in (step for wave in story.waves for step in wave if step.event_id):
            path, headers, raw = story.event_request(step)
            body = json.loads(raw)
            assert (body["of"], body["id"]) == (story.scoped_id, step.event_id)
            assert headers["X-Event-Id"] == step.event_id
            ids = body if step.ids_in_body else {k.lower(): v for k, v in headers.items()}
            found = [value for name, value in ids.items() if "execution" in name]
            assert found == [story.execution_id]
            assert path.startswith("/api/internal/")
