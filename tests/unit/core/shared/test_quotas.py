"""Which quota is used up, and whose limit counts."""

import pytest

from core.shared.quotas import (
    COUNTED,
    DAY,
    Quota,
    QuotaLimits,
    StorageUsage,
    StoredKind,
    days_kept,
    exhausted_quota,
    limit_of,
)

LIMITS = QuotaLimits(rows_per_day=10, bytes_per_day=100, stored_rows=50, stored_bytes=0)


@pytest.mark.parametrize(
    ("usage", "quota"),
    [
        (StorageUsage(), None),
        (StorageUsage(rows_per_day=9, bytes_per_day=99, stored_rows=49), None),
        (StorageUsage(rows_per_day=10), Quota.ROWS_PER_DAY),
        (StorageUsage(bytes_per_day=101), Quota.BYTES_PER_DAY),
        (StorageUsage(rows_per_day=60, stored_rows=60), Quota.STORED_ROWS),
        (StorageUsage(stored_bytes=10**15), None),
    ],
)
def test_the_first_that_is_used_up(usage: StorageUsage, quota: Quota | None) -> None:
    found = exhausted_quota(usage, LIMITS, {})
    assert (found[0] if found else None) is quota


def test_a_tenants_own_limit_goes_before_that_of_all() -> None:
    usage = StorageUsage(rows_per_day=15, stored_bytes=7)
    assert exhausted_quota(usage, LIMITS, {"rowsPerDay": 20}) is None
    assert exhausted_quota(usage, LIMITS, {"rowsPerDay": 0}) is None
    assert exhausted_quota(usage, LIMITS, {"rowsPerDay": 5}) == (Quota.ROWS_PER_DAY, 5)
    assert exhausted_quota(usage, LIMITS, {"rowsPerDay": 0, "storedBytes": 7}) == (
        Quota.STORED_BYTES,
        7,
    )


def test_every_quota_has_a_limit_and_a_setting() -> None:
    for quota in Quota:
        assert limit_of(quota, QuotaLimits(), {}) is not None
        assert quota.setting.startswith("tenant_")
    assert Quota.EVENT_TYPES.setting == "tenant_event_types"
    assert Quota.KEYS in COUNTED
    assert len(COUNTED) == len(Quota) - 4


def test_what_is_kept_is_counted_by_whole_days() -> None:
    kept = days_kept(early_ttl=DAY, retention=6.5 * DAY)
    assert kept[StoredKind.INBOX] == 1
    assert kept[StoredKind.WAITS] == kept[StoredKind.DEAD_LETTERS] == 7
