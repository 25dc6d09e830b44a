import itertools

import pytest

from core.waits.passivation import should_passivate


@pytest.mark.parametrize(
    ("unsaved", "ended", "idle", "crowded", "leaves"),
    [
        (False, False, 0.0, False, False),
        (False, False, 59.9, False, False),
        (False, False, 60.0, False, True),
        (False, True, 0.0, False, True),
        (False, False, 0.0, True, True),
    ],
)
def test_who_may_leave_memory(
    unsaved: bool, ended: bool, idle: float, crowded: bool, leaves: bool
) -> None:
    assert (
        should_passivate(unsaved=unsaved, ended=ended, idle=idle, idle_after=60.0, crowded=crowded)
        is leaves
    )


def test_unsaved_state_never_leaves() -> None:
    for ended, crowded, idle in itertools.product((True, False), (True, False), (0.0, 1e9)):
        assert not should_passivate(
            unsaved=True, ended=ended, idle=idle, idle_after=60.0, crowded=crowded
        )
