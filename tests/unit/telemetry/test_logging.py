import json

import pytest
import structlog

from core.shared.address import Address
from telemetry.logging import HIDDEN, about, configure_logging


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_line_is_json_with_name_level_and_the_correlation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("INFO", as_json=True)
    structlog.get_logger("shard").info("wait.ended", **about(Address(7, "run", "order")))
    (line,) = lines(capsys)
    expected = {"event": "wait.ended", "level": "info", "logger": "shard"}
    expected |= {"tenant": 7, "execution": "run", "correlation": "order"}  # type: ignore[dict-item]
    assert line.items() >= expected.items()


@pytest.mark.parametrize("field", sorted(HIDDEN))
def test_what_senders_sent_and_what_opens_doors_is_hidden(
    field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("INFO", as_json=True)
    structlog.get_logger().info("x", **{field: "s3cr3t"})
    assert "s3cr3t" not in capsys.readouterr().err


def test_a_traceback_shows_no_local_variables_and_no_long_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("INFO", as_json=True)

    def choke(payload: str) -> None:
        raise ValueError("x" * 1000 + payload)

    try:
        choke("s3cr3t")
    except ValueError:
        structlog.get_logger().exception("boom")
    text = capsys.readouterr().err
    assert "s3cr3t" not in text
    assert "ValueError" in text


def test_a_field_that_json_has_no_form_for_costs_no_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("INFO", as_json=True)
    structlog.get_logger().info("x", odd=object())
    assert "<object object" in str(lines(capsys)[0]["odd"])


def test_levels_below_the_chosen_one_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("warning", as_json=False)
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    text = capsys.readouterr().err
    assert "loud" in text
    assert "quiet" not in text


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="LOUD"):
        configure_logging("LOUD", as_json=True)
