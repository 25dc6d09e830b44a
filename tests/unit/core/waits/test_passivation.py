import itertools

import pytest

from core.waits.passivation import Stay, judge_stay


@pytest.mark.parametrize(
    ("unsaved", "ended", "idle", "crowded", "stay"),
    [
        (False, False, 0.0, False, Stay.KEEP),
        (False, False, 59.9, False, Stay.KEEP),
        (False, False, 60.0, False, Stay.LEAVE),
        (False, True, 0.0, False, Stay.LEAVE),
        (False, False, 0.0, True, Stay.LEAVE),
    ],
)
def test_who_may_leave_memory(
    unsaved: bool, ended: bool, idle: float, crowded: bool, stay: Stay
) -> None:
    assert (
        judge_stay(unsaved=unsaved, ended=ended, idle=idle, idle_after=60.0, crowded=crowded)
        is stay
    )


def test_unsaved_state_never_leaves() -> None:
    for ended, crowded, idle in itertools.product((True, False), (True, False), (0.0, 1e9)):
        stay = judge_stay(unsaved=True, ended=ended, idle=idle, idle_after=60.0, crowded=crowded)
        assert stay is Stay.KEEP
