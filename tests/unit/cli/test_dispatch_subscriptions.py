"""`muster subscriptions`, `pools`, `warnings` and `breakers`: words, requests, output."""

import json
from typing import Any

import httpx
import pytest

from cli.dispatch.pool_stats import only
from cli.errors import CommandError
from tests.unit.cli.conftest import Muster

SUBSCRIPTIONS, POOLS = "/api/subscriptions", "/api/dispatch-pools"
WARNINGS, BREAKERS = "/monitoring/warnings", "/monitoring/circuit-breakers"
SUBSCRIPTION: dict[str, Any] = {
    "id": "sub_0PJ3F6SK81VB8",
    "code": "billing",
    "name": "Billing",
    "description": None,
    "eventTypes": [
        {"eventTypeCode": "shop:*:*:*", "eventTypeId": None, "specVersion": None},
        {"eventTypeCode": "shop:orders:order:paid", "eventTypeId": None, "specVersion": "1.*"},
    ],
    "target": "http://127.0.0.1:9/hook",
    "dispatchPoolCode": "default",
    "mode": "BLOCK_ON_ERROR",
    "timeoutSeconds": 30,
    "maxAgeSeconds": 86_400,
    "delaySeconds": 0,
    "maxRetries": 3,
    "sequence": 99,
    "dataOnly": True,
    "filter": "data.total > 9",
    "headers": {"X-A": "•••"},
    "auth": {"type": "bearer", "secret": "•••"},
    "signature": "standard",
    "status": "PAUSED",
    "statusReason": "it failed for 5 days",
    "failingSince": "2030-01-01T00:00:00Z",
    "version": 7,
}
SECRETS = {
    "secret": "whsec_new",
    "secrets": [
        {"secret": "whsec_new", "createdAt": "2030-01-02T00:00:00Z", "expiresAt": None},
        {
            "secret": "whsec_old",
            "createdAt": "2030-01-01T00:00:00Z",
            "expiresAt": "2030-01-03T00:00:00Z",
        },
    ],
}
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
NOT_THERE = httpx.Response(404, json={"detail": "there is no such thing"})


def sent(muster: Muster, place: int = -1) -> Any:
    return json.loads(muster.requests[place].content)


@pytest.mark.parametrize(
    "words",
    [
        *(["events", name] for name in ("send", "list", "show")),
        *(
            ["event-types", name]
            for name in (
                "list",
                "show",
                "create",
                "add-version",
                "finalise",
                "deprecate",
                "archive",
            )
        ),
        *(
            ["subscriptions", name]
            for name in (
                "list",
                "show",
                "create",
                "change",
                "pause",
                "resume",
                "rm",
                "secret",
                "rotate",
            )
        ),
        *(
            ["pools", name]
            for name in ("list", "show", "put", "suspend", "activate", "archive", "stats")
        ),
        *(
            ["jobs", name]
            for name in (
                "list",
                "show",
                "post",
                "secret",
                "requeue",
                "resend",
                "cancel",
                "complete",
                "ignore",
                "recover",
            )
        ),
        *(["groups", name] for name in ("list", "show", "park", "resume", "skip")),
        *(["warnings", name] for name in ("list", "ack")),
        *(["breakers", name] for name in ("list", "reset")),
    ],
    ids=" ".join,
)
def test_every_command_has_help_with_an_example(words: list[str], muster: Muster) -> None:
    shown = muster.run(*words, "--help")
    assert shown.exit_code == 0, shown.output
    assert f"muster {' '.join(words)}" in shown.stdout.rpartition("Example")[2]
    assert "--json" in shown.stdout


# Subscriptions


def test_a_subscription_is_created_and_its_secret_alone_on_standard_output(
    muster: Muster,
) -> None:
    muster.answers[f"POST {SUBSCRIPTIONS}"] = httpx.Response(201, json=SUBSCRIPTION)
    muster.answers[f"GET {SUBSCRIPTIONS}/billing-eu/secret"] = SECRETS
    little = muster.run("subscriptions", "create", "billing-eu", "http://x/", "--type", "a:b:c:d")
    assert little.stdout == "whsec_new\n"
    assert "billing-eu takes events" in little.stderr
    assert sent(muster, 0) == {
        "code": "billing-eu",
        "name": "Billing eu",
        "target": "http://x/",
        "eventTypes": [{"eventTypeCode": "a:b:c:d"}],
    }
    types = ("-t", "shop:*:*:*", "-t", "a:b:c:d@1.*", "--filter", "data.total > 9")
    times = ("--delay", "10s", "--max-age", "2d", "--timeout", "5s", "--retries", "4")
    order = ("--mode", "block_on_error", "--sequence", "7", "--pool", "slow")
    extra = ("--header", "X-A=1", "--basic", "me:pw", "--signature", "classic", "--envelope")
    names = ("--name", "N", "--description", "D", "--json")
    muster.requests.clear()
    run = muster.run(
        "subscriptions",
        "create",
        "billing-eu",
        "http://x/",
        *types,
        *times,
        *order,
        *extra,
        *names,
    )
    assert json.loads(run.stdout)["secret"] == "whsec_new"
    assert sent(muster, 0) == {
        "code": "billing-eu",
        "name": "N",
        "description": "D",
        "target": "http://x/",
        "eventTypes": [
            {"eventTypeCode": "shop:*:*:*"},
            {"eventTypeCode": "a:b:c:d", "specVersion": "1.*"},
        ],
        "filter": "data.total > 9",
        "mode": "BLOCK_ON_ERROR",
        "dispatchPoolId": "slow",
        "delaySeconds": 10,
        "maxAgeSeconds": 172_800,
        "timeoutSeconds": 5,
        "maxRetries": 4,
        "sequence": 7,
        "dataOnly": False,
        "headers": {"X-A": "1"},
        "auth": {"type": "basic", "username": "me", "password": "pw"},
        "signature": "classic",
    }


def test_subscriptions_are_listed_and_shown(muster: Muster) -> None:
    page = {"subscriptions": [SUBSCRIPTION], "total": 2, "nextCursor": "billing"}
    muster.answers[f"GET {SUBSCRIPTIONS}"] = page
    words = ("--status", "paused", "--type", "a:b:c:d", "--pool", "slow")
    listed = muster.run("subscriptions", "list", *words).stdout
    assert dict(muster.requests[0].url.params) == {
        "status": "PAUSED",
        "eventType": "a:b:c:d",
        "pool": "slow",
        "limit": "100",
    }
    for text in ("shop:orders:order:paid@1.*", "BLOCK_ON_ERROR", "--cursor billing"):
        assert text in listed
    muster.answers[f"GET {SUBSCRIPTIONS}/billing"] = SUBSCRIPTION
    shown = muster.run("subscriptions", "show", "billing").stdout
    for text in ("it failed for 5 days", "data.total > 9", "X-A: •••", "bearer", "1d"):
        assert text in shown
    muster.answers[f"GET {SUBSCRIPTIONS}"] = {"subscriptions": [], "nextCursor": None}
    assert muster.run("subscriptions", "list").stdout == "No subscriptions.\n"


def test_what_is_changed_of_a_subscription_is_only_what_was_given(muster: Muster) -> None:
    muster.answers[f"PATCH {SUBSCRIPTIONS}/billing"] = SUBSCRIPTION
    words = ("--target", "http://y/", "--data-only", "--name", "N")
    assert muster.run("subscriptions", "change", "billing", *words).exit_code == 0
    assert sent(muster) == {"target": "http://y/", "dataOnly": True, "name": "N"}


def test_a_subscription_is_paused_resumed_and_removed(muster: Muster) -> None:
    path = f"{SUBSCRIPTIONS}/billing"
    muster.answers[f"POST {path}/pause"] = muster.answers[f"POST {path}/resume"] = SUBSCRIPTION
    muster.answers[f"DELETE {path}"] = httpx.Response(204)
    told = [muster.run("subscriptions", verb, "billing").stdout for verb in ("pause", "resume")]
    assert told == ["Subscription billing is paused.\n", "Subscription billing takes events.\n"]
    assert muster.run("subscriptions", "rm", "billing").stdout.endswith("is removed.\n")
    assert json.loads(muster.run("subscriptions", "rm", "billing", "--json").stdout)["removed"]


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["subscriptions", "secret", "billing"], f"GET {SUBSCRIPTIONS}/billing/secret"),
        (["subscriptions", "rotate", "billing"], f"POST {SUBSCRIPTIONS}/billing/secret/rotate"),
        (["jobs", "secret"], "GET /api/webhook-secret"),
        (["jobs", "secret", "--rotate"], "POST /api/webhook-secret/rotate"),
    ],
)
def test_the_newest_secret_is_alone_on_standard_output(
    words: list[str], path: str, muster: Muster
) -> None:
    muster.answers[path] = SECRETS
    run = muster.run(*words)
    assert run.stdout == "whsec_new\n"
    assert run.stderr.startswith("until 2030-01-0")
    assert run.stderr.endswith("also whsec_old\n")
    assert json.loads(muster.run(*words, "--json").stdout) == SECRETS


@pytest.mark.parametrize(
    ("overlap", "body"),
    [
        ([], {}),
        (["--overlap", "0"], {"overlapSeconds": 0}),
        (["--overlap", "7d"], {"overlapSeconds": 604_800}),
    ],
)
def test_the_old_secret_signs_for_a_while(overlap: list[str], body: Any, muster: Muster) -> None:
    muster.answers[f"POST {SUBSCRIPTIONS}/billing/secret/rotate"] = SECRETS
    muster.run("subscriptions", "rotate", "billing", *overlap)
    assert sent(muster) == body


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["show"], "GET {}"),
        (["pause"], "POST {}/pause"),
        (["rm"], "DELETE {}"),
        (["secret"], "GET {}/secret"),
        (["rotate"], "POST {}/secret/rotate"),
        (["change", "--retries", "4"], "PATCH {}"),
    ],
)
def test_a_subscription_that_is_not_there_is_told_with_what_to_do(
    words: list[str], path: str, muster: Muster
) -> None:
    muster.answers[path.format(f"{SUBSCRIPTIONS}/nobody")] = NOT_THERE
    run = muster.run("subscriptions", *words, "nobody")
    assert run.exit_code == 1
    assert run.stderr == "There is no subscription nobody: see `muster subscriptions list`.\n"


# Pools


def test_pools_are_listed_and_shown(muster: Muster) -> None:
    shared = {**POOL, "code": "default", "rateLimit": None, "anchorLevel": True}
    muster.answers[f"GET {POOLS}"] = {"pools": [POOL, shared], "total": 2, "nextCursor": None}
    listed = muster.run("pools", "list", "--status", "active").stdout
    for text in ("Slow partner", "600", "no limit", "yours", "everybody's"):
        assert text in listed
    assert muster.requests[0].url.params["status"] == "ACTIVE"
    muster.answers[f"GET {POOLS}/slow-partner"] = POOL
    assert "600" in muster.run("pools", "show", "slow-partner").stdout
    muster.answers[f"GET {POOLS}"] = {"pools": [], "total": 0, "nextCursor": None}
    assert muster.run("pools", "list").stdout == "No pools.\n"


def test_a_pool_is_made_or_changed(muster: Muster) -> None:
    muster.answers[f"GET {POOLS}/slow-partner"] = NOT_THERE
    muster.answers[f"POST {POOLS}"] = httpx.Response(201, json=POOL)
    words = ("pools", "put", "slow-partner", "--rate", "600", "--concurrency", "5")
    assert muster.run(*words).stdout == "Pool slow-partner: 600 a minute, 5 at once.\n"
    assert sent(muster) == {
        "code": "slow-partner",
        "name": "Slow partner",
        "rateLimit": 600,
        "concurrency": 5,
    }
    muster.answers[f"GET {POOLS}/slow-partner"] = POOL
    muster.answers[f"PATCH {POOLS}/slow-partner"] = {**POOL, "rateLimit": None}
    changed = muster.run("pools", "put", "slow-partner", "--rate", "none", "--description", "D")
    assert changed.stdout == "Pool slow-partner: as many as there are, 5 at once.\n"
    assert sent(muster) == {"rateLimit": None, "description": "D"}
    nothing = muster.run("pools", "put", "slow-partner")
    assert nothing.exit_code == 2
    assert nothing.stderr.startswith("Say what is to change")


def test_a_pool_waits_delivers_and_goes(muster: Muster) -> None:
    path = f"{POOLS}/slow-partner"
    for verb in ("suspend", "activate"):
        muster.answers[f"POST {path}/{verb}"] = POOL
    muster.answers[f"DELETE {path}"] = httpx.Response(204)
    told = [
        muster.run("pools", verb, "slow-partner").stdout
        for verb in ("suspend", "activate", "archive")
    ]
    assert told == [
        "Pool slow-partner waits.\n",
        "Pool slow-partner delivers.\n",
        "Pool slow-partner is archived.\n",
    ]
    assert json.loads(muster.run("pools", "archive", "slow-partner", "--json").stdout) == {
        "pool": "slow-partner",
        "archived": True,
    }
    muster.answers[f"DELETE {path}"] = NOT_THERE
    gone = muster.run("pools", "archive", "slow-partner")
    assert gone.stderr == "There is no pool slow-partner: see `muster pools list`.\n"


def test_a_pool_of_others_is_refused_without_a_hint_at_keys(muster: Muster) -> None:
    problem = {"code": "anchors_pool", "detail": "the dispatch pool is the anchor's"}
    muster.answers[f"POST {POOLS}/default/suspend"] = httpx.Response(403, json=problem)
    assert (
        muster.run("pools", "suspend", "default").stderr == "The dispatch pool is the anchor's.\n"
    )


def test_how_pools_fare(muster: Muster) -> None:
    away = {**STATS, "poolCode": "away", "poolId": "dpl_2", "alive": False, "blockedGroups": 0}
    muster.answers["GET /monitoring/pool-stats"] = {"items": [STATS, away]}
    shown = muster.run("pools", "stats").stdout
    for text in ("1 of 5", "1,234", "50 %", "8 (1 blocked)", "12 ms", "away"):
        assert text in shown
    chosen = json.loads(muster.run("pools", "stats", "dpl_2", "--json").stdout)
    assert [one["poolCode"] for one in chosen["items"]] == ["away"]
    missing = muster.run("pools", "stats", "nobody")
    assert missing.stderr == "There is no pool nobody: see `muster pools list`.\n"
    muster.answers["GET /monitoring/pool-stats"] = {"items": []}
    assert muster.run("pools", "stats").stdout == "No pools.\n"
    with pytest.raises(CommandError):
        only({"items": []}, ["x"])


# Warnings and targets


def test_warnings_are_listed(muster: Muster) -> None:
    open_ = f"GET {WARNINGS}/unacknowledged"
    muster.answers[open_] = {"items": [WARNING], "nextCursor": "17"}
    shown = muster.run("warnings", "list").stdout
    for text in ("GROUP_BLOCKED", "1,200", "a failed job holds 1 group", "--cursor 17"):
        assert text in shown
    muster.answers[f"GET {WARNINGS}"] = {"items": [], "nextCursor": None}
    assert muster.run("warnings", "list", "--all").stdout == "No warnings.\n"
    muster.answers[f"GET {WARNINGS}/severity/CRITICAL"] = {"items": [], "nextCursor": None}
    assert muster.run("warnings", "list", "--severity", "critical").exit_code == 0


def test_warnings_are_seen(muster: Muster) -> None:
    for number in (17, 18):
        muster.answers[f"POST {WARNINGS}/{number}/acknowledge"] = WARNING
    assert muster.run("warnings", "ack", "17").stdout == "1 warning is seen.\n"
    assert muster.run("warnings", "ack", "17", "18", "17").stdout == "2 warnings are seen.\n"
    muster.answers[f"GET {WARNINGS}/unacknowledged"] = {"items": [WARNING], "nextCursor": None}
    seen = json.loads(muster.run("warnings", "ack", "--all", "--json").stdout)
    assert seen == {"items": [WARNING]}


def test_targets_are_listed_and_tried_again(muster: Muster) -> None:
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
    assert one.stdout == "1 target is tried again.\n"
    raw = muster.requests[-1].url.raw_path
    assert raw == f"{BREAKERS}/http:%2F%2F127.0.0.1:9%2Fhook/reset".encode()
    muster.answers[f"POST {BREAKERS}/reset-all"] = {"reset": 2}
    assert muster.run("breakers", "reset", "--all").stdout == "2 targets are tried again.\n"
    muster.answers[path] = NOT_THERE
    gone = muster.run("breakers", "reset", "http://127.0.0.1:9/hook")
    assert gone.stderr.startswith("Nothing was delivered to http://127.0.0.1:9/hook lately")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["subscriptions", "create", "billing", "http://x/"], "Say which events it takes"),
        (["subscriptions", "create", "Billing", "http://x/", "-t", "*"], "is no code"),
        (["subscriptions", "create", "billing", "http://x/", "-t", "@1.0"], "names no events"),
        (["subscriptions", "create", "billing", "http://x/", "-t", "a@"], "names no events"),
        (["subscriptions", "change", "billing"], "Say what is to change"),
        (["subscriptions", "show", "No Body"], "There is no subscription No Body"),
        (["subscriptions", "rotate", "billing", "--overlap", "soon"], "is not a duration"),
        (["pools", "put", "slow", "--rate", "fast"], "--rate is a number"),
        (["pools", "put", "slow", "--rate", "0"], "--rate is a number"),
        (["pools", "show", "Slow!"], "is no code for a pool"),
        (["warnings", "ack"], "Name warnings: ids, or --all."),
        (["warnings", "ack", "1", "--all"], "Name warnings: ids, or --all."),
        (["breakers", "reset"], "Name a target, or give --all."),
        (["breakers", "reset", "http://x/", "--all"], "Name a target, or give --all."),
    ],
)
def test_what_cannot_be_right_is_said_before_anything_is_sent(
    words: list[str], told: str, muster: Muster
) -> None:
    run = muster.run(*words)
    assert run.exit_code == 2
    assert told in run.stderr
    assert not muster.requests
