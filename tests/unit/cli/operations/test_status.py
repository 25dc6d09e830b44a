from typing import Any

from rich.console import Console

from cli.operations.status import Rates, rates_by_actor, status_view, total_rates


def shard(name: str, uptime: float, **stats: Any) -> dict[str, Any]:
    counts = {"flushes": 0, "flush_seconds_buckets": [0], **stats}
    return {"name": name, "alive": True, "pid": 7, "uptime": uptime, "stats": counts}


def report(*actors: dict[str, Any], **totals: int) -> dict[str, Any]:
    return {"actors": [*actors, {"name": "supervisor", "alive": True}], "totals": totals}


BEFORE = report(shard("shard-0", 10.0, flushes=100, flush_rows=500, matched=10, late=1))
AFTER = report(
    shard("shard-0", 12.0, flushes=110, flush_rows=600, matched=18, late=3, hot=4, pending=2)
)


def test_rates_are_differences_over_the_actor_s_own_time() -> None:
    rates = rates_by_actor(BEFORE, AFTER)
    assert rates == {"shard-0": Rates(events=5.0, flushes=5.0, rows=50.0)}


def test_the_same_report_again_has_no_rate() -> None:
    assert rates_by_actor(BEFORE, BEFORE) == {}


def test_an_actor_that_was_started_in_between_has_no_rate_yet() -> None:
    restarted = report(shard("shard-0", 0.5, flushes=3), shard("shard-1", 0.5, flushes=3))
    assert rates_by_actor(BEFORE, restarted) == {}


def test_the_total_is_the_sum() -> None:
    rates = {"a": Rates(events=1.0, rows=2.0), "b": Rates(events=0.5, flushes=3.0)}
    assert total_rates(rates) == Rates(events=1.5, flushes=3.0, rows=2.0)
    assert total_rates({}) == Rates()


def test_the_view_shows_actors_hot_correlations_flush_rate_and_backlog() -> None:
    console = Console(width=140, record=True, file=None)
    with console.capture() as captured:
        console.print(status_view("http://here", AFTER, rates_by_actor(BEFORE, AFTER)))
    lines = [line.split() for line in captured.get().splitlines()]
    assert ["hot", "correlations", "4"] in lines
    assert ["backlog", "2"] in lines
    assert ["flushes", "5.0", "per", "second,", "10.0", "rows", "each"] in lines
    assert ["shard-0", "up", "7", "0", "12s", "4", "2", "5.0", "5.0"] in lines
    assert ["supervisor", "up", "0"] in lines


def test_an_actor_that_is_down_is_seen() -> None:
    console = Console(width=140)
    dead = {"actors": [{"name": "timer", "alive": False, "restarts": 2}]}
    with console.capture() as captured:
        console.print(status_view("http://here", dead, {}))
    assert "0 of 1" in captured.get()
    assert "down" in captured.get()
