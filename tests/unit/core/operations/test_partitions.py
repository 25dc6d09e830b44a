"""A partition a week, made ahead; dropped when all of it is past its time and nobody needs it."""

from datetime import UTC, datetime

import pytest

from core.operations.partitions import (
    MARGIN,
    WEEK,
    WEEKS_AHEAD,
    Partition,
    expired_partitions,
    expiry_bound,
    is_prepared,
    missing_partitions,
    week_of,
)
from core.shared.tsid import IdMaker, first_at

MONDAY = datetime(2026, 11, 16, tzinfo=UTC).timestamp()
NOW = MONDAY + 2 * 86_400 + 1_234.5


def weeks(*numbers: int) -> list[Partition]:
    return [week_of("t", NOW + number * WEEK) for number in numbers]


@pytest.mark.parametrize("at", [MONDAY, NOW, MONDAY + WEEK - 0.001])
def test_a_week_is_from_monday_to_monday(at: float) -> None:
    week = week_of("record_changes", at)
    assert week == ("record_changes_20261116", first_at(MONDAY), first_at(MONDAY + WEEK))
    assert week.first <= IdMaker(1023, lambda: at)() < week.end


def test_weeks_follow_each_other_without_a_gap() -> None:
    assert week_of("t", MONDAY - 0.001).end == week_of("t", MONDAY).first


def test_this_week_and_the_next_ones_are_made() -> None:
    assert missing_partitions("t", [], NOW) == weeks(*range(WEEKS_AHEAD + 1))


def test_what_exists_is_not_made_again() -> None:
    assert missing_partitions("t", weeks(-1, 0, 1, 3), NOW) == weeks(2, 4)
    shortened = weeks(0)[0]._replace(first=first_at(NOW))
    assert missing_partitions("t", [shortened, *weeks(1, 2, 3, 4)], NOW) == []


def test_no_partition_is_made_for_a_week_that_is_over() -> None:
    assert all(one.end > first_at(NOW) for one in missing_partitions("t", [], NOW))


def test_rows_of_this_week_stay_in_the_default_partition() -> None:
    first, *others = missing_partitions("t", [], NOW, newest_elsewhere=first_at(NOW - 10))
    assert first == weeks(0)[0]._replace(first=first_at(NOW + MARGIN))
    assert others == weeks(1, 2, 3, 4)


def test_a_partition_begins_behind_ids_of_a_clock_that_is_ahead() -> None:
    ahead = IdMaker(7, lambda: NOW + 3_600)()
    first, *_ = missing_partitions("t", [], NOW, newest_elsewhere=ahead)
    assert first.first > ahead
    assert not ahead < first_at(NOW + 3_600.001) < first.first


def test_a_week_that_is_full_has_no_partition() -> None:
    last = weeks(0)[0].end
    found = missing_partitions("t", [], MONDAY + WEEK - 1, newest_elsewhere=first_at(NOW))
    assert found[0].first == last
    assert len(found) == WEEKS_AHEAD


def test_old_rows_in_the_default_partition_change_nothing() -> None:
    assert missing_partitions("t", [], NOW, first_at(NOW - 9 * WEEK)) == weeks(0, 1, 2, 3, 4)


def test_a_table_is_prepared_while_the_coming_week_has_its_partition() -> None:
    assert is_prepared(weeks(0, 1), NOW)
    assert not is_prepared(weeks(0), NOW)
    assert not is_prepared(weeks(2), NOW)


def test_a_partition_goes_when_its_last_id_is_past_its_time() -> None:
    known = weeks(0, -1, -2, -3)
    assert expired_partitions(known, MONDAY - WEEK) == weeks(-3, -2)
    assert expired_partitions(known, MONDAY - WEEK - 0.001) == weeks(-3)
    assert expired_partitions(known, NOW - 9 * WEEK) == []


def test_a_partition_that_is_needed_stays_and_all_behind_it() -> None:
    known = weeks(-4, -3, -2, -1)
    needed = first_at(NOW - 3 * WEEK)
    assert expired_partitions(known, NOW, needed) == weeks(-4)
    assert expired_partitions(known, NOW, first_at(NOW)) == known


def test_rows_go_below_the_older_of_both_bounds() -> None:
    assert expiry_bound(NOW) == expiry_bound(NOW, first_at(NOW + 1)) == first_at(NOW)
    assert expiry_bound(NOW, first_at(NOW - 1)) == first_at(NOW - 1)
