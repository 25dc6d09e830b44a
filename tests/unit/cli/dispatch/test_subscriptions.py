"""`muster subscriptions` from the words typed to the requests and the output."""

import json
from typing import Any

import httpx
import pytest

from cli.shell import context
from tests.support.command_line import NOT_THERE, FakeMuster, sent

SUBSCRIPTIONS = "/api/subscriptions"
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


def test_a_subscription_is_created_and_its_secret_alone_on_standard_output(
    muster: FakeMuster,
) -> None:
    muster.answers[f"POST {SUBSCRIPTIONS}"] = httpx.Response(201, json=SUBSCRIPTION)
    muster.answers[f"GET {SUBSCRIPTIONS}/billing-eu/secret"] = SECRETS
    little = muster.run("subscriptions", "create", "billing-eu", "http://x/", "--type", "a:b:c:d")
    assert little.stdout == "whsec_new\n"
    assert "billing-eu is active" in little.stderr
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


def test_subscriptions_are_listed_and_shown(muster: FakeMuster) -> None:
    page = {"items": [SUBSCRIPTION], "total": 2, "nextCursor": "billing"}
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
    muster.answers[f"GET {SUBSCRIPTIONS}"] = {"items": [], "nextCursor": None}
    assert muster.run("subscriptions", "list").stdout == "No subscriptions.\n"


def test_what_is_changed_of_a_subscription_is_only_what_was_given(muster: FakeMuster) -> None:
    muster.answers[f"PATCH {SUBSCRIPTIONS}/billing"] = SUBSCRIPTION
    words = ("--target", "http://y/", "--data-only", "--name", "N")
    assert muster.run("subscriptions", "change", "billing", *words).exit_code == 0
    assert sent(muster) == {"target": "http://y/", "dataOnly": True, "name": "N"}


def test_a_delay_and_a_filter_are_taken_back(muster: FakeMuster) -> None:
    muster.answers[f"PATCH {SUBSCRIPTIONS}/billing"] = SUBSCRIPTION
    words = ("--delay", "0", "--filter", "none")
    assert muster.run("subscriptions", "change", "billing", *words).exit_code == 0
    assert sent(muster) == {"delaySeconds": 0, "filter": None}


def test_a_person_is_asked_before_something_is_removed(
    muster: FakeMuster, monkeypatch: pytest.MonkeyPatch
) -> None:
    muster.answers[f"DELETE {SUBSCRIPTIONS}/billing"] = httpx.Response(204)
    monkeypatch.setattr(context, "has_terminal", lambda: True)
    no = muster.run("subscriptions", "rm", "billing", stdin="n\n")
    assert (no.exit_code, muster.requests) == (1, [])
    assert "Remove subscription billing? [y/N]" in no.stderr
    for words, answer in ((["rm", "billing"], "y\n"), (["rm", "billing", "--yes"], None)):
        assert muster.run("subscriptions", *words, stdin=answer).exit_code == 0
    assert [request.method for request in muster.requests] == ["DELETE", "DELETE"]


def test_a_subscription_is_paused_resumed_and_removed(muster: FakeMuster) -> None:
    path = f"{SUBSCRIPTIONS}/billing"
    muster.answers[f"POST {path}/pause"] = muster.answers[f"POST {path}/resume"] = SUBSCRIPTION
    muster.answers[f"DELETE {path}"] = httpx.Response(204)
    told = [muster.run("subscriptions", verb, "billing").stdout for verb in ("pause", "resume")]
    assert told == ["Subscription billing is paused.\n", "Subscription billing is active.\n"]
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
    words: list[str], path: str, muster: FakeMuster
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
def test_the_old_secret_signs_for_a_while(
    overlap: list[str], body: Any, muster: FakeMuster
) -> None:
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
    words: list[str], path: str, muster: FakeMuster
) -> None:
    muster.answers[path.format(f"{SUBSCRIPTIONS}/nobody")] = NOT_THERE
    run = muster.run("subscriptions", *words, "nobody")
    assert run.exit_code == 1
    assert run.stderr == "There is no subscription nobody: see `muster subscriptions list`.\n"
