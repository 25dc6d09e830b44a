from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.dispatch.sent_at import to_micros, to_millis


@pytest.mark.parametrize(
    ("at", "millis", "micros"),
    [
        (0.0, "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000000Z"),
        (1_772_366_400.25, "2026-03-01T12:00:00.250Z", "2026-03-01T12:00:00.250000Z"),
        (1_772_366_400.000_049, "2026-03-01T12:00:00.000Z", "2026-03-01T12:00:00.000049Z"),
        (1_772_366_399.999_999_9, "2026-03-01T12:00:00.000Z", "2026-03-01T12:00:00.000000Z"),
    ],
)
def test_an_instant_is_written(at: float, millis: str, micros: str) -> None:
    assert (to_millis(at), to_micros(at)) == (millis, micros)


@given(st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - bounds have no zone
def test_what_is_written_can_be_read(at: datetime) -> None:
    assert abs((datetime.fromisoformat(to_micros(at.timestamp())) - at).total_seconds()) < 2e-6
