import itertools

import pytest

from core.waits.passivation import PassivationDecision, decide_passivation


@pytest.mark.parametrize(
    ("unsaved", "ended", "idle", "crowded", "stay"),
    [
        (False, False, 0.0, False, PassivationDecision.KEEP),
        (False, False, 59.9, False, PassivationDecision.KEEP),
        (False, False, 60.0, False, PassivationDecision.LEAVE),
        (False, True, 0.0, False, PassivationDecision.LEAVE),
        (False, False, 0.0, True, PassivationDecision.LEAVE),
    ],
)
def test_who_may_leave_memory(
    unsaved: bool, ended: bool, idle: float, crowded: bool, stay: PassivationDecision
) -> None:
    assert (
        decide_passivation(
            unsaved=unsaved, ended=ended, idle=idle, idle_after=60.0, crowded=crowded
        )
        is stay
    )


def test_unsaved_state_never_leaves() -> None:
    for ended, crowded, idle in itertools.product((True, False), (True, False), (0.0, 1e9)):
        stay = decide_passivation(
            unsaved=True, ended=ended, idle=idle, idle_after=60.0, crowded=crowded
        )
        assert stay is PassivationDecision.KEEP
