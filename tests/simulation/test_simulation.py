"""Thousands of seeded stories; `python -m tests.simulation SEED` replays one exactly."""

import pytest
import structlog

from tests.simulation.clockwork import simulate
from tests.simulation.scenario import play

SEEDS = 2_000


@pytest.mark.timeout(600)
def test_stories_keep_the_laws() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    refused = matched = 0
    for seed in range(SEEDS):
        try:
            story = simulate(play(seed))
        except Exception as error:
            raise AssertionError(f"seed {seed}: python -m tests.simulation {seed}") from error
        refused += story.tables.refused_writes
        matched += len(story.tables.log)
    # The laws must have been tried: twins wrote with old versions, and events came through.
    assert refused > SEEDS / 50
    assert matched > SEEDS
