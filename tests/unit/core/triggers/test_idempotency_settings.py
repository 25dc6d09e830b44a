"""Settings that are refused when they are saved, and what becomes of those that were stored."""

from typing import Any

import pytest
from pydantic import ValidationError

from core.triggers.idempotency_settings import (
    IdempotencySettings,
    IdempotencyStrategy,
    read_stored_settings,
)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"strategy": "TIME_WINDOW"}, "TIME_WINDOW needs ttlMinutes, a number of minutes over 0"),
        ({"strategy": "CONTEXT_BASED"}, "CONTEXT_BASED needs contextFields"),
        (
            {"strategy": "CONTEXT_TIME_WINDOW"},
            "CONTEXT_TIME_WINDOW needs ttlMinutes, a number of minutes over 0 and contextFields",
        ),
        ({"strategy": "EVENT_BASED"}, "EVENT_BASED needs includeEventType or includeEventId"),
        ({"strategy": "CUSTOM_EXPRESSION"}, "CUSTOM_EXPRESSION needs customExpression"),
        (
            {"strategy": "CUSTOM_EXPRESSION", "customExpression": "  "},
            "CUSTOM_EXPRESSION needs customExpression",
        ),
        (
            {"strategy": "CONTEXT_BASED", "contextFields": ["a", "a"]},
            "contextFields must name each field once",
        ),
        ({"strategy": "UUID", "window": "SLIDING"}, "a SLIDING window needs ttlMinutes"),
        ({"strategy": "TIME_WINDOW", "ttlMinutes": 0}, "greater than 0"),
        ({"strategy": "TIME_WINDOW", "ttlMinutes": float("inf")}, "finite number"),
        ({"strategy": "TIME_WINDOW", "ttlMinutes": float("nan")}, "finite number"),
        ({"strategy": "TIME_WINDOW", "ttlMinutes": 1e9}, "less than or equal to 527040"),
        ({"strategy": "TIME_WINDOW", "ttlMinutes": "15"}, "valid number"),
        ({"strategy": "SOMETIMES"}, "'NONE', 'UUID', 'TIME_WINDOW'"),
        ({"strategy": None}, "'NONE', 'UUID', 'TIME_WINDOW'"),
        ({"strategy": "CONTEXT_BASED", "contextFields": [""]}, "at least 1 character"),
        ({"strategy": "UUID", "keepDays": 0}, "greater than or equal to 1"),
        ({"strategy": "UUID", "failOnMissingContext": "yes"}, "valid boolean"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        IdempotencySettings.model_validate(settings)
    assert says in str(caught.value)


def test_a_window_may_be_a_part_of_a_minute_and_has_a_millisecond_at_least() -> None:
    for minutes, window in ((0.5, 30_000), (15, 900_000), (1e-9, 1)):
        settings = IdempotencySettings(
            strategy=IdempotencyStrategy.TIME_WINDOW, ttl_minutes=minutes
        )
        assert settings.window_ms == window


def test_what_a_strategy_does_not_use_has_no_effect() -> None:
    settings = IdempotencySettings.model_validate(
        {"strategy": "CONTEXT_BASED", "contextFields": ["a"], "ttlMinutes": 5, "colour": "red"}
    )
    assert settings.window_ms is None


def test_stored_settings_are_read() -> None:
    stored = read_stored_settings('{"strategy": "TIME_WINDOW", "ttlMinutes": 5}')
    assert stored.settings.strategy is IdempotencyStrategy.TIME_WINDOW
    assert stored.warning is None


def test_without_settings_every_event_has_an_id_of_its_own() -> None:
    assert read_stored_settings(None) == (IdempotencySettings(), None)
    assert IdempotencySettings().strategy is IdempotencyStrategy.UUID


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        ("{", "they are not JSON"),
        (b"\xff", "they are not JSON"),
        ("[" * 5_000, "they are not JSON"),
        ("[]", "valid dictionary"),
        ('{"strategy": null}', "strategy: Input should be 'NONE'"),
        ('{"strategy": "TIME_WINDOW"}', "TIME_WINDOW needs ttlMinutes"),
    ],
)
def test_broken_settings_fall_back_with_a_warning(stored: str | bytes, says: str) -> None:
    found = read_stored_settings(stored)
    assert found.settings == IdempotencySettings()
    assert found.warning is not None
    assert says in found.warning
    assert "every event starts the workflow until they are corrected" in found.warning
