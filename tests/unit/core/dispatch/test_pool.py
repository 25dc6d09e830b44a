"""What may become of a dispatch pool."""

import pytest

from core.dispatch.pool import (
    PoolRefusal,
    PoolStatus,
    refuse_archive,
    refuse_beyond_limit,
    refuse_change,
    refuse_code,
)

ACTIVE, SUSPENDED, ARCHIVED = PoolStatus.ACTIVE, PoolStatus.SUSPENDED, PoolStatus.ARCHIVED


@pytest.mark.parametrize(
    ("status", "refusal"),
    [(ACTIVE, None), (SUSPENDED, None), (ARCHIVED, PoolRefusal.POOL_ARCHIVED)],
)
def test_what_is_archived_stays_as_it_is(status: PoolStatus, refusal: PoolRefusal | None) -> None:
    assert refuse_change(status) is refusal


@pytest.mark.parametrize(
    ("total", "own", "most", "is_anchors", "refused"),
    [
        (10, 9, 20, False, False),
        (10, 10, 20, False, True),
        (10, 10, 20, True, False),
        (20, 0, 20, False, True),
        (20, 5, 20, True, True),
        (0, 0, 1, False, False),
    ],
)
def test_a_tenant_has_half_of_the_places_at_most(
    total: int, own: int, most: int, is_anchors: bool, refused: bool
) -> None:
    refusal = refuse_beyond_limit(total, own, limit=most, is_anchors=is_anchors)
    assert refusal is (PoolRefusal.POOL_LIMIT if refused else None)


def test_the_code_of_the_pool_for_what_names_none_is_the_anchors() -> None:
    assert refuse_code("default", is_anchors=False) is PoolRefusal.CODE_IS_RESERVED
    assert refuse_code("default", is_anchors=True) is None
    assert refuse_code("slow", is_anchors=False) is None


@pytest.mark.parametrize(
    ("status", "is_default", "is_used", "refusal"),
    [
        (ACTIVE, False, False, None),
        (SUSPENDED, False, False, None),
        (ACTIVE, False, True, PoolRefusal.POOL_IN_USE),
        (SUSPENDED, False, True, PoolRefusal.POOL_IN_USE),
        (ACTIVE, True, False, PoolRefusal.POOL_IS_DEFAULT),
        (ARCHIVED, False, False, PoolRefusal.POOL_ALREADY_ARCHIVED),
        (ARCHIVED, False, True, PoolRefusal.POOL_ALREADY_ARCHIVED),
    ],
)
def test_a_pool_is_archived_when_nobody_needs_it(
    status: PoolStatus, is_default: bool, is_used: bool, refusal: PoolRefusal | None
) -> None:
    assert refuse_archive(status, is_default=is_default, is_used=is_used) is refusal
