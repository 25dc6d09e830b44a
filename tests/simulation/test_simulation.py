"""Ten thousand seeded stories; `python -m tests.simulation SEED` replays one exactly."""

import pytest

from tests.simulation.many import try_seeds

SEEDS = 10_000


@pytest.mark.timeout(900)
def test_stories_keep_the_laws() -> None:
    tried = try_seeds(0, SEEDS)
    assert tried.seeds == SEEDS
    # The laws must have been tried: twins wrote with old versions, and events came through.
    assert tried.refused_writes > SEEDS / 50
    assert tried.log_lines > SEEDS
