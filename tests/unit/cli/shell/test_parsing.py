from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.shell.errors import InputError
from cli.shell.formats import format_duration
from cli.shell.parsing import parse_duration


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90", timedelta(seconds=90)),
        ("90s", timedelta(seconds=90)),
        ("1.5m", timedelta(seconds=90)),
        ("12H", timedelta(hours=12)),
        ("30d", timedelta(days=30)),
        ("2w", timedelta(weeks=2)),
        ("1h30m", timedelta(minutes=90)),
        (" 1h 30m ", timedelta(minutes=90)),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, length: timedelta) -> None:
    assert parse_duration(text) == length


@pytest.mark.parametrize("text", ["", "d", "-5s", "5y", "1h30", "1,5h", "nan", "1e5s", "0", "0s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_duration(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InputError):
        assert parse_duration(text) > timedelta()


@pytest.mark.parametrize("text", ["999999999w", "9" * 400 + "d"])
def test_more_than_a_lifetime_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (1.26, "1.3s"),
        (59, "59s"),
        (61, "1m 1s"),
        (3600, "1h"),
        (90_061, "1d 1h"),
        (172_800, "2d"),
    ],
)
def test_durations_are_shown_in_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
