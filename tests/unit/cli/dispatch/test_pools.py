"""`muster pools`, `warnings` and `breakers` from the words typed to the requests and the output."""

import json
from typing import Any

import httpx
import pytest

from cli.dispatch.pool_stats import select_pools
from cli.shell.errors import CommandError
from tests.support.command_line import NOT_THERE, FakeMuster, sent

POOLS = "/api/dispatch-pools"
WARNINGS, BREAKERS = "/monitoring/warnings", "/monitoring/circuit-breakers"
POOL: dict[str, Any] = {
    "id": "dpl_0PJ3F6SK81VB8",
    "code": "slow-partner",
    "name": "Slow partner",
    "description": None,
    "rateLimit": 600,
    "concurrency": 5,
    "status": "ACTIVE",
    "anchorLevel": False,
}
STATS: dict[str, Any] = {
    "poolCode": "slow-partner",
    "poolId": "dpl_0PJ3F6SK81VB8",
    "status": "ACTIVE",
    "alive": True,
    "totalSucceeded": 1_234,
    "totalFailed": 2,
    "totalRetried": 3,
    "totalDeferred": 4,
    "activeWorkers": 1,
    "maxConcurrency": 5,
    "rateLimitPerMinute": 600,
    "queueSize": 9,
    "groups": 8,
    "blockedGroups": 1,
    "averageProcessingTimeMs": 12.4,
    "successRate5min": 0.5,
}
WARNING: dict[str, Any] = {
    "id": "17",
    "category": "GROUP_BLOCKED",
    "severity": "ERROR",
    "message": "a failed job holds 1 group",
    "source": "default",
    "timestamp": "2030-01-01T00:00:00Z",
    "count": 1_200,
    "acknowledgedBy": "ab12",
}
BREAKER: dict[str, Any] = {
    "name": "http://127.0.0.1:9/hook",
    "poolCode": "default",
    "state": "OPEN",
    "successfulCalls": 5,
    "failedCalls": 6,
    "rejectedCalls": 0,
    "failureRate": 0.55,
    "openForSeconds": 4.0,
}


# Pools


def test_pools_are_listed_and_shown(muster: FakeMuster) -> None:
    shared = {**POOL, "code": "default", "rateLimit": None, "anchorLevel": True}
    muster.answers[f"GET {POOLS}"] = {"items": [POOL, shared], "total": 2, "nextCursor": None}
    listed = muster.run("pools", "list", "--status", "active").stdout
    for text in ("Slow partner", "600", "no limit", "yours", "shared"):
        assert text in listed
    assert muster.requests[0].url.params["status"] == "ACTIVE"
    muster.answers[f"GET {POOLS}/slow-partner"] = POOL
    assert "600" in muster.run("pools", "show", "slow-partner").stdout
    muster.answers[f"GET {POOLS}"] = {"items": [], "total": 0, "nextCursor": None}
    assert muster.run("pools", "list").stdout == "No pools.\n"


def test_a_pool_is_made_or_changed(muster: FakeMuster) -> None:
    muster.answers[f"GET {POOLS}/slow-partner"] = NOT_THERE
    muster.answers[f"POST {POOLS}"] = httpx.Response(201, json=POOL)
    words = ("pools", "put", "slow-partner", "--rate", "600", "--concurrency", "5")
    assert muster.run(*words).stdout == "Pool slow-partner: 600 per minute, 5 at once.\n"
    assert sent(muster) == {
        "code": "slow-partner",
        "name": "Slow partner",
        "rateLimit": 600,
        "concurrency": 5,
    }
    muster.answers[f"GET {POOLS}/slow-partner"] = POOL
    muster.answers[f"PATCH {POOLS}/slow-partner"] = {**POOL, "rateLimit": None}
    changed = muster.run("pools", "put", "slow-partner", "--rate", "none", "--description", "D")
    assert changed.stdout == "Pool slow-partner: no limit per minute, 5 at once.\n"
    assert sent(muster) == {"rateLimit": None, "description": "D"}
    nothing = muster.run("pools", "put", "slow-partner")
    assert nothing.exit_code == 2
    assert nothing.stderr.startswith("Say what to change")


def test_a_pool_waits_delivers_and_goes(muster: FakeMuster) -> None:
    path = f"{POOLS}/slow-partner"
    for verb in ("suspend", "activate"):
        muster.answers[f"POST {path}/{verb}"] = POOL
    muster.answers[f"DELETE {path}"] = httpx.Response(204)
    told = [
        muster.run("pools", verb, "slow-partner").stdout
        for verb in ("suspend", "activate", "archive")
    ]
    assert told == [
        "Pool slow-partner is suspended.\n",
        "Pool slow-partner is active.\n",
        "Pool slow-partner is archived.\n",
    ]
    assert json.loads(muster.run("pools", "archive", "slow-partner", "--json").stdout) == {
        "pool": "slow-partner",
        "archived": True,
    }
    muster.answers[f"DELETE {path}"] = NOT_THERE
    gone = muster.run("pools", "archive", "slow-partner")
    assert gone.stderr == "There is no pool slow-partner: see `muster pools list`.\n"


def test_a_pool_of_others_is_refused_without_a_hint_at_keys(muster: FakeMuster) -> None:
    problem = {"code": "anchors_pool", "detail": "the dispatch pool is the anchor's"}
    muster.answers[f"POST {POOLS}/default/suspend"] = httpx.Response(403, json=problem)
    assert (
        muster.run("pools", "suspend", "default").stderr == "The dispatch pool is the anchor's.\n"
    )


def test_how_pools_fare(muster: FakeMuster) -> None:
    away = {**STATS, "poolCode": "away", "poolId": "dpl_2", "alive": False, "blockedGroups": 0}
    muster.answers["GET /monitoring/pool-stats"] = {"items": [STATS, away]}
    shown = muster.run("pools", "stats").stdout
    for text in ("1 of 5", "1,234", "50 %", "8 (1 blocked)", "12 ms", "not running"):
        assert text in shown
    chosen = json.loads(muster.run("pools", "stats", "dpl_2", "--json").stdout)
    assert [one["poolCode"] for one in chosen["items"]] == ["away"]
    missing = muster.run("pools", "stats", "nobody")
    assert missing.stderr == "There is no pool nobody: see `muster pools list`.\n"
    muster.answers["GET /monitoring/pool-stats"] = {"items": []}
    assert muster.run("pools", "stats").stdout == "No pools.\n"
    with pytest.raises(CommandError):
        select_pools({"items": []}, ["x"])


# Warnings and targets


def test_warnings_are_listed(muster: FakeMuster) -> None:
    open_ = f"GET {WARNINGS}/unacknowledged"
    muster.answers[open_] = {"items": [WARNING], "nextCursor": "17"}
    shown = muster.run("warnings", "list").stdout
    for text in ("GROUP_BLOCKED", "1,200", "a failed job holds 1 group", "--cursor 17"):
        assert text in shown
    muster.answers[f"GET {WARNINGS}"] = {"items": [], "nextCursor": None}
    assert muster.run("warnings", "list", "--all").stdout == "No warnings.\n"
    muster.answers[f"GET {WARNINGS}/severity/CRITICAL"] = {"items": [], "nextCursor": None}
    assert muster.run("warnings", "list", "--severity", "critical").exit_code == 0


def test_warnings_are_acknowledged(muster: FakeMuster) -> None:
    for number in (17, 18):
        muster.answers[f"POST {WARNINGS}/{number}/acknowledge"] = WARNING
    assert muster.run("warnings", "ack", "17").stdout == "1 warning acknowledged.\n"
    assert muster.run("warnings", "ack", "17", "18", "17").stdout == "2 warnings acknowledged.\n"
    muster.answers[f"GET {WARNINGS}/unacknowledged"] = {"items": [WARNING], "nextCursor": None}
    seen = json.loads(muster.run("warnings", "ack", "--all", "--json").stdout)
    assert seen == {"items": [WARNING]}


def test_targets_are_listed_and_tried_again(muster: FakeMuster) -> None:
    closed = {**BREAKER, "name": "http://z/", "state": "CLOSED", "openForSeconds": 0.0}
    muster.answers[f"GET {BREAKERS}"] = {"items": [BREAKER, closed]}
    listed = muster.run("breakers", "list", "--state", "open").stdout
    assert "55 %" in listed
    assert "http://z/" not in listed
    muster.answers[f"GET {BREAKERS}"] = {"items": []}
    assert muster.run("breakers", "list").stdout == "No targets.\n"

    path = f"POST {BREAKERS}/http://127.0.0.1:9/hook/reset"
    muster.answers[path] = {"reset": 1}
    one = muster.run("breakers", "reset", "http://127.0.0.1:9/hook")
    assert one.stdout == "1 breaker reset.\n"
    raw = muster.requests[-1].url.raw_path
    assert raw == f"{BREAKERS}/http:%2F%2F127.0.0.1:9%2Fhook/reset".encode()
    muster.answers[f"POST {BREAKERS}/reset-all"] = {"reset": 2}
    assert muster.run("breakers", "reset", "--all").stdout == "2 breakers reset.\n"
    muster.answers[path] = NOT_THERE
    gone = muster.run("breakers", "reset", "http://127.0.0.1:9/hook")
    assert gone.stderr.startswith(
        "Nothing was delivered to http://127.0.0.1:9/hook in the last hour"
    )
