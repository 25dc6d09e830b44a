import pytest

from services.kafka.redrive import (
    MAX_ROUND_BYTES,
    RedriveSelection,
    ids_within_budget,
    remaining_ids,
    select_named,
)
from storage.kafka.dead_letters import DeadLetterSize


def weighed(*sizes: int) -> list[DeadLetterSize]:
    return [DeadLetterSize(number, size) for number, size in enumerate(sizes, 1)]


@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        ((), ()),
        ((1, 2, 3), (1, 2, 3)),
        ((MAX_ROUND_BYTES, 0, 1), (1, 2)),
        ((MAX_ROUND_BYTES + 1, 1), (1,)),
        ((1, MAX_ROUND_BYTES), (1,)),
        ((0, MAX_ROUND_BYTES * 9, 0), (1,)),
    ],
)
def test_a_round_holds_what_memory_may_hold_and_one_in_any_case(
    sizes: tuple[int, ...], taken: tuple[int, ...]
) -> None:
    assert ids_within_budget(weighed(*sizes)) == taken


def test_ids_are_tried_once_each_in_order_after_the_cursor() -> None:
    assert remaining_ids(RedriveSelection(ids=(5, 3, 3, 9, 1), after=2)) == [3, 5, 9]


def test_unknown_ids_are_told_in_the_round_that_passes_them() -> None:
    first = select_named([1, 2, 3, 9], 3, [DeadLetterSize(1, 1), DeadLetterSize(3, 1)])
    assert (first.ids, first.unknown, first.reached, first.remaining) == ((1, 3), (2,), 3, 1)
    last = select_named([9], 3, [])
    assert (last.ids, last.unknown, last.reached, last.remaining) == ((), (9,), 9, 0)


def test_a_heavy_letter_ends_the_round_and_what_lies_behind_it_waits() -> None:
    cut = select_named([1, 2, 3, 4], 4, [DeadLetterSize(1, 1), DeadLetterSize(3, MAX_ROUND_BYTES)])
    assert (cut.ids, cut.reached, cut.remaining, cut.unknown) == ((1,), 1, 3, ())


def test_nothing_asked_is_nothing_done() -> None:
    nothing = select_named([], 10, [])
    assert (nothing.ids, nothing.remaining, nothing.reached) == ((), 0, 0)
