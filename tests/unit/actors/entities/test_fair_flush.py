"""Which rows a shard stores next, where several tenants send."""

from actors.entities.fair_flush import BYTES, LIGHT_BYTES, LIGHT_ROWS, ROWS, SharedFlush
from actors.waits.turn import Unsaved

MUCH, LITTLE, THIRD = 1, 2, 3


def rows(tenant: int, count: int, weight: int = 300) -> list[Unsaved]:
    made = [Unsaved(f"{tenant}-{at}".encode(), tenant, None) for at in range(count)]
    for one in made:
        one.weight = weight
    return made


def tenants(chosen: list[Unsaved]) -> list[int]:
    return [one.change.tenant for one in chosen]


def test_who_has_little_goes_first_and_then_everybody() -> None:
    shared, waiting = SharedFlush(), [*rows(MUCH, 1_000), *rows(LITTLE, 2)]
    assert tenants(shared.choose(waiting, 2_000)) == [LITTLE, LITTLE]
    waiting = [*rows(MUCH, 1_000), *rows(LITTLE, 1), *rows(THIRD, 1)]
    second = tenants(shared.choose(waiting, 2_000))
    assert len(second) == ROWS
    assert {LITTLE, THIRD} < set(second)
    assert tenants(shared.choose(waiting, 2_000)) in ([LITTLE, THIRD], [THIRD, LITTLE])


def test_who_has_much_is_never_kept_waiting_for_two_flushes() -> None:
    shared, waiting = SharedFlush(), [*rows(MUCH, 1_000), *rows(LITTLE, LIGHT_ROWS)]
    found = [MUCH in tenants(shared.choose(waiting, 2_000)) for _ in range(6)]
    assert found == [False, True] * 3


def test_all_who_have_little_are_stored_together() -> None:
    waiting = [*rows(LITTLE, LIGHT_ROWS), *rows(THIRD, 3)]
    assert len(SharedFlush().choose(waiting, 2_000)) == len(waiting)


def test_between_those_who_have_much_rows_go_by_turns() -> None:
    chosen = tenants(SharedFlush().choose([*rows(MUCH, 500), *rows(THIRD, 500)], 2_000))
    assert (chosen.count(MUCH), chosen.count(THIRD)) == (ROWS // 2, ROWS // 2)


def test_few_rows_may_be_much_and_what_is_small_fits_beside_them() -> None:
    shared = SharedFlush()
    heavy = rows(MUCH, 5, BYTES - 1_000)
    little = rows(LITTLE, 1)
    assert tenants(shared.choose([*heavy, *little], 2_000)) == [LITTLE]
    assert sorted(tenants(shared.choose([*heavy, *little], 2_000))) == [MUCH, LITTLE]
    assert tenants(shared.choose(rows(MUCH, 2, LIGHT_BYTES), 2_000)) == [MUCH, MUCH]


def test_what_is_heavier_than_a_flush_is_stored_alone() -> None:
    assert len(SharedFlush().choose(rows(MUCH, 2, 2 * BYTES), 2_000)) == 1


def test_a_flush_has_no_more_rows_than_it_may() -> None:
    assert len(SharedFlush().choose(rows(MUCH, 500), 10)) == 10
