"""Who was not let in: every one is counted, few lines tell of them."""

import pytest
from structlog.testing import capture_logs

from core.shared.errors import Denial
from telemetry.denials import LOG_EVERY, MANY, MAX_KEYS, MAX_SOURCES, Denials

UNKNOWN = Denial("unknown_key")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def denials(clock: Clock) -> Denials:
    return Denials("r", clock)


def counted(denials: Denials, tenant: int | None = None) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sorted(v for k, v in sample.labels.items() if k != "replica")): sample.value
        for family in denials.families(tenant)
        for sample in family.samples
    }


def test_a_source_gets_a_line_a_second_with_the_count(denials: Denials, clock: Clock) -> None:
    with capture_logs() as lines:
        for _ in range(500):
            denials.note(UNKNOWN, "10.0.0.1")
        denials.flush_log()
        assert [line["count"] for line in lines] == [1]
        clock.now += LOG_EVERY
        denials.note(UNKNOWN, "10.0.0.1")
        assert [line["count"] for line in lines] == [1, 500]
        denials.note(UNKNOWN, "10.0.0.1")
        clock.now += LOG_EVERY
        denials.flush_log()
    assert [line["count"] for line in lines] == [1, 500, 1]
    told = {"event": "request.denied", "reason": "unknown_key", "source": "10.0.0.1"}
    assert told.items() <= lines[0].items()
    assert counted(denials) == {("muster_http_denied_total", "unknown_key"): 502}


def test_a_flood_of_sources_is_told_as_one(denials: Denials, clock: Clock) -> None:
    with capture_logs() as lines:
        for number in range(10_000):
            denials.note(UNKNOWN, f"source-{number}")
        assert len(lines) == MAX_SOURCES + 1
        assert lines[-1]["source"] == MANY
        clock.now += LOG_EVERY
        denials.flush_log()
        assert lines[-1]["count"] == 10_000 - MAX_SOURCES - 1
        clock.now += LOG_EVERY
        denials.flush_log()
    assert not denials._lines, "what is quiet is forgotten"


def test_a_key_is_named_in_the_log_and_to_its_own_tenant(denials: Denials) -> None:
    with capture_logs() as lines:
        denials.note(Denial("wrong_secret", "abc", 7), "10.0.0.1")
        denials.note(Denial("permission", "abc", 7), "10.0.0.1")
    assert [line["prefix"] for line in lines] == ["abc", "abc"]
    own = counted(denials, 7)
    assert own["muster_key_denied_total", "abc", "permission"] == 1
    assert own["muster_key_denied_total", "abc", "wrong_secret"] == 1
    for other in (None, 8):
        assert not any("abc" in labels for labels in counted(denials, other))


def test_keys_that_are_counted_apart_have_a_bound(denials: Denials) -> None:
    for number in range(MAX_KEYS + 50):
        denials.note(Denial("permission", f"k{number}", 7), "s")
    own = counted(denials, 7)
    assert own["muster_key_denied_total", MANY, "permission"] == 50
    for tenant in range(5_000):
        denials.note(Denial("permission", "k", tenant + 100), "s")
    assert len(denials._keys) == 2 * MAX_KEYS
