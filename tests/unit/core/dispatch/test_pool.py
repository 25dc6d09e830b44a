"""What may become of a dispatch pool."""

import pytest

from core.dispatch.pool import (
    PoolRefusal,
    PoolStatus,
    refuse_archive,
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
