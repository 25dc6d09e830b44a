"""Half at most for one, and always room for the next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.shared import tenant_share
from core.shared.tenant_share import CONTESTED_FOR, SharedLimit, round_robin

NOW = 1_000.0


def _fill(limit: SharedLimit, tenant: int, now: float = NOW) -> int:
    before = limit.held_by(tenant)
    while limit.fits(tenant, 1, now):
        limit.take(tenant, 1)
    return limit.held_by(tenant) - before


@pytest.mark.parametrize(("limit", "half"), [(1, 1), (2, 1), (3, 1), (4, 2), (200, 100)])
def test_one_tenant_has_half_at_most(limit: int, half: int) -> None:
    assert _fill(SharedLimit(limit), 1) == half


def test_whoever_comes_next_finds_room_however_many_are_there() -> None:
    shared = SharedLimit(200)
    assert [_fill(shared, tenant) for tenant in range(1, 6)] == [100, 50, 25, 12, 6]
    assert shared.taken < 200


def test_what_is_given_back_may_be_taken_by_another() -> None:
    shared = SharedLimit(12)
    assert (_fill(shared, 1), _fill(shared, 2)) == (6, 3)
    shared.release(1, 2)
    assert shared.taken == 7
    assert _fill(shared, 2) == 1
    shared.release(1, 4)
    assert shared.held_by(1) == 0
    assert shared.fits(1, 1, NOW)


def test_something_large_passes_where_there_is_nothing_else() -> None:
    shared = SharedLimit(10)
    assert shared.fits(1, 50, NOW)
    shared.take(1, 8)
    assert not shared.fits(2, 3, NOW)
    assert shared.fits(2, 2, NOW)


def test_who_is_alone_may_have_all_of_what_is_soon_free() -> None:
    shared = SharedLimit(10, whole_if_alone=True)
    assert _fill(shared, 1) == 10
    assert not shared.fits(2, 1, NOW)
    shared.release(1, 6)
    # Somebody else has asked: from now on there are shares.
    assert _fill(shared, 1) == 1
    assert _fill(shared, 2) == 2
    shared.release(2, 2)
    assert _fill(shared, 1, NOW + 1) == 0
    assert _fill(shared, 1, NOW + 2 + CONTESTED_FOR) == 5


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9), st.booleans()), max_size=60))
def test_it_is_never_more_than_there_is_but_for_one_that_is_alone(
    asks: list[tuple[int, int, bool]],
) -> None:
    shared, held = SharedLimit(20), dict.fromkeys(range(1, 5), 0)
    for tenant, amount, gives_back in asks:
        if gives_back and held[tenant] >= amount:
            shared.release(tenant, amount)
            held[tenant] -= amount
        elif shared.fits(tenant, amount, NOW):
            shared.take(tenant, amount)
            held[tenant] += amount
        assert shared.taken == sum(held.values()) <= 20
        assert all(shared.held_by(tenant) == amount for tenant, amount in held.items())


def test_it_is_contested_for_a_while_after_a_second_tenant_asked() -> None:
    shared = SharedLimit(10)
    assert shared.fits(1, 1, NOW)
    assert not shared.is_contested(NOW)
    assert shared.fits(2, 1, NOW)
    assert shared.is_contested(NOW + CONTESTED_FOR - 1)
    assert not shared.is_contested(NOW + CONTESTED_FOR)


@pytest.mark.parametrize(
    ("tenants", "most", "chosen"),
    [
        ("aaaa", 3, [0, 1, 2]),
        ("aaaabb", 4, [0, 4, 1, 5]),
        ("aaaab", 9, [0, 4, 1, 2, 3]),
        ("", 9, []),
    ],
)
def test_each_tenant_has_its_turn_and_its_own_order(
    tenants: str, most: int, chosen: list[int]
) -> None:
    assert round_robin([(ord(name), at) for at, name in enumerate(tenants)], most) == chosen


@pytest.mark.parametrize(
    ("total", "own", "limit", "has_room"),
    [
        (10, 9, 20, True),
        (10, 10, 20, False),
        (10, 0, 20, True),
        (20, 0, 20, False),
        (0, 0, 1, True),
    ],
)
def test_a_tenant_has_half_of_the_places_at_most(
    total: int, own: int, limit: int, has_room: bool
) -> None:
    assert tenant_share.has_room(limit, total, own) is has_room
