"""Ten thousand seeded stories; `python -m tests.simulation SEED` replays one exactly."""

import pytest

from tests.simulation.clockwork import simulate
from tests.simulation.many import try_seeds
from tests.simulation.scenario import play

SEEDS = 10_000


@pytest.mark.timeout(900)
def test_stories_keep_the_laws() -> None:
    tried = try_seeds(0, SEEDS)
    assert tried.seeds == SEEDS
    # The laws must have been tried: twins wrote with old versions, and events came through.
    assert tried.refused_writes > SEEDS / 50
    assert tried.log_lines > SEEDS


def test_a_seed_tells_the_same_story_again() -> None:
    for seed in (77, 1031, *range(20)):
        one, other = simulate(play(seed)), simulate(play(seed))
        assert one.tables.log == other.tables.log
        assert one.tables.refused_writes == other.tables.refused_writes
