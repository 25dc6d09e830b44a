"""`muster jobs` and `muster groups` from the words typed to the requests and the output."""

import json
from typing import Any

import httpx
import pytest

from cli import confirm as asking
from cli.dispatch.bulk import by_ids, counted
from tests.unit.cli.conftest import Muster

ID, OTHER = "0PJ3F6SK81VB8", "0PJ3F6SK81VB9"
JOBS, GROUPS = "/api/dispatch-jobs", "/api/dispatch-groups"
JOB: dict[str, Any] = {
    "id": ID,
    "kind": "EVENT",
    "code": "shop:orders:order:created",
    "source": "shop",
    "subject": None,
    "eventId": "0PJ3F6SK81VB0",
    "subscriptionId": "sub_0PJ3F6SK81VB0",
    "messageGroup": "billing:customer-4",
    "mode": "BLOCK_ON_ERROR",
    "sequence": 99,
    "dispatchPoolCode": "default",
    "hasAuth": True,
    "metadata": [{"key": "a", "value": "b"}],
    "status": "ERROR",
    "ignored": False,
    "attemptCount": 3,
    "maxRetries": 3,
    "timeoutSeconds": 30,
    "targetUrl": "http://127.0.0.1:9/hook",
    "createdAt": "2030-01-01T00:00:00Z",
    "lastAttemptAt": "2030-01-01T00:00:09Z",
    "lastError": "HTTP 500",
    "durationMillis": None,
}
SHOWN = {
    **JOB,
    "payload": {"ü": 1},
    "payloadEncoding": "json",
    "attempts": [
        {
            "attemptNumber": 3,
            "attemptedAt": "2030-01-01T00:00:09Z",
            "durationMillis": 7,
            "status": "SERVER_ERROR",
            "responseCode": 500,
            "responseBody": "oh\nno",
            "errorMessage": None,
        }
    ],
}
GROUP: dict[str, Any] = {
    "name": "billing:customer-4",
    "dispatchPoolCode": "default",
    "state": "blocked",
    "blocked": True,
    "parked": {"reason": "disputed", "by": "ab12", "at": "2030-01-01T00:00:00Z"},
    "waiting": 1_000,
    "head": {
        "id": ID,
        "status": "ERROR",
        "lastError": "HTTP 500",
        "ageSeconds": 65.0,
        "scheduledFor": None,
    },
}


def sent(muster: Muster, place: int = -1) -> Any:
    return json.loads(muster.requests[place].content)


def changed(done: int = 0, remaining: int = 0, cursor: str | None = None, **more: Any) -> Any:
    return {
        "changed": done,
        "refused": [],
        "remaining": remaining,
        "nextCursor": cursor,
        **more,
    }


# Looking


def test_jobs_are_listed_by_their_filters(muster: Muster) -> None:
    muster.answers[f"GET {JOBS}"] = {"items": [JOB], "nextCursor": ID}
    words = ("--status", "error", "--status", "queued", "--kind", "event", "--code", "c")
    more = ("--pool", "p", "--group", "g", "--event", "e", "--correlation", "x", "--ignored")
    since = ("--since", "2030-01-01T00:00:00Z", "--subscription", "sub_1", "--source", "shop")
    run = muster.run("jobs", "list", *words, *more, *since, "--limit", "7")
    assert run.exit_code == 0, run.output
    params = muster.requests[0].url.params
    assert params.get_list("status") == ["ERROR", "QUEUED"]
    assert {name: params[name] for name in params if name != "status"} == {
        "kind": "EVENT",
        "code": "c",
        "source": "shop",
        "subscriptionId": "sub_1",
        "pool": "p",
        "messageGroup": "g",
        "eventId": "e",
        "correlationId": "x",
        "createdAfter": "2030-01-01T00:00:00Z",
        "ignored": "true",
        "limit": "7",
    }
    for text in (ID, "billing:customer-4", "3/3", "127.0.0.1:9/hook", "HTTP 500", f"--cursor {ID}"):
        assert text in run.stdout
    muster.answers[f"GET {JOBS}"] = {"items": [], "nextCursor": None}
    assert muster.run("jobs", "list").stdout == "No jobs.\n"


def test_a_subscription_may_be_named_by_its_code(muster: Muster) -> None:
    muster.answers["GET /api/subscriptions/billing"] = {"id": "sub_7", "code": "billing"}
    muster.answers[f"GET {JOBS}"] = {"items": [], "nextCursor": None}
    muster.run("jobs", "list", "--subscription", "billing")
    assert muster.requests[-1].url.params["subscriptionId"] == "sub_7"
    missing = httpx.Response(404, json={"detail": "there is no such subscription"})
    muster.answers["GET /api/subscriptions/billing"] = missing
    told = muster.run("jobs", "list", "--subscription", "billing").stderr
    assert told == "There is no subscription billing: see `muster subscriptions list`.\n"


def test_a_job_is_shown_with_its_attempts_and_what_it_brings(muster: Muster) -> None:
    muster.answers[f"GET {JOBS}/{ID}"] = SHOWN
    shown = muster.run("jobs", "show", ID).stdout
    for text in ("(shows who calls)", "BLOCK_ON_ERROR, sequence 99", "SERVER_ERROR", "oh no"):
        assert text in shown
    assert '"ü": 1' in shown
    gone = {**SHOWN, "attempts": [], "payloadEncoding": "none", "ignored": True}
    muster.answers[f"GET {JOBS}/{ID}"] = gone
    shown = muster.run("jobs", "show", ID).stdout
    for text in ("It was not sent yet.", "What it brought is gone.", "ERROR (ignored)"):
        assert text in shown
    for encoding, told in (("base64", "/w==  (base64)"), ("text", "/w==\n")):
        muster.answers[f"GET {JOBS}/{ID}"] = {
            **SHOWN,
            "payload": "/w==",
            "payloadEncoding": encoding,
            "completedAt": "2030-01-01T00:00:09Z",
            "durationMillis": 9_000,
        }
        shown = muster.run("jobs", "show", ID).stdout
        assert told.strip() in shown
        assert "after 9.0s" in shown


# Posting


def test_a_job_is_posted_with_what_was_given(muster: Muster) -> None:
    muster.answers[f"POST {JOBS}"] = httpx.Response(201, json={**JOB, "status": "QUEUED"})
    order = ("--group", "g", "--mode", "next_on_error", "--sequence", "7", "--pool", "p")
    times = ("--delay", "1m", "--max-age", "1d", "--timeout", "5s", "--retries", "4")
    names = ("--idempotency-key", "k", "--correlation", "c", "--subject", "s", "--source", "shop")
    extra = ("--header", "X-A=1", "--bearer", "hush", "--metadata", "a=b", "--envelope")
    form = ("--signature", "classic", "--client", "acme", "--schema", "sch_1")
    run = muster.run(
        "jobs", "post", "ship", "http://x/", "-d", "[1.10]", *order, *times, *names, *extra, *form
    )
    assert run.stdout == f"Job {ID} is QUEUED.\n"
    assert muster.requests[0].content.endswith(b', "payload": [1.10]}')
    assert sent(muster) == {
        "code": "ship",
        "targetUrl": "http://x/",
        "source": "shop",
        "subject": "s",
        "messageGroup": "g",
        "mode": "NEXT_ON_ERROR",
        "sequence": 7,
        "dispatchPoolId": "p",
        "delaySeconds": 60,
        "maxAgeSeconds": 86_400,
        "timeoutSeconds": 5,
        "maxRetries": 4,
        "idempotencyKey": "k",
        "correlationId": "c",
        "headers": {"X-A": "1"},
        "auth": {"type": "bearer", "token": "hush"},
        "clientId": "acme",
        "schemaId": "sch_1",
        "signature": "classic",
        "metadata": [{"key": "a", "value": "b"}],
        "dataOnly": False,
        "payload": [1.10],
    }
    assert muster.run("jobs", "post", "ship", "http://x/").exit_code == 0
    assert sent(muster) == {
        "code": "ship",
        "targetUrl": "http://x/",
        "source": "muster-cli",
        "payload": {},
    }


# Putting right


@pytest.mark.parametrize(
    ("verb", "done"),
    [
        ("requeue", "queued again"),
        ("cancel", "cancelled"),
        ("complete", "called completed"),
        ("ignore", "put aside"),
    ],
)
def test_one_job_is_changed_without_a_question(verb: str, done: str, muster: Muster) -> None:
    muster.answers[f"POST {JOBS}/{ID}/{verb}"] = JOB
    assert muster.run("jobs", verb, ID).stdout == f"Job {ID} is {done}: ERROR\n"
    problem = {"detail": "the job is being delivered; wait until that has ended"}
    muster.answers[f"POST {JOBS}/{ID}/{verb}"] = httpx.Response(409, json=problem)
    run = muster.run("jobs", verb, ID)
    assert run.exit_code == 1
    assert run.stderr == "The job is being delivered; wait until that has ended.\n"


def test_a_job_is_delivered_once_more(muster: Muster) -> None:
    muster.answers[f"POST {JOBS}/{ID}/resend"] = JOB
    assert muster.run("jobs", "resend", ID).stdout == f"Job {ID} is delivered once more.\n"


def test_some_by_their_ids_with_those_that_were_left(muster: Muster) -> None:
    refused = [{"id": OTHER, "result": "in_progress", "status": "IN_PROGRESS"}]
    muster.answers[f"POST {JOBS}/requeue"] = changed(1, refused=refused)
    run = muster.run("jobs", "requeue", ID, OTHER, ID)
    assert run.exit_code == 1, "one was left"
    assert sent(muster) == {"ids": [ID, OTHER], "limit": 100}
    assert run.stdout.startswith("1 job queued again.\n")
    assert "it is being delivered" in run.stdout
    assert run.stderr == "1 job left as before:\n"
    as_json = json.loads(muster.run("jobs", "requeue", ID, OTHER, "--json").stdout)
    assert as_json == {"changed": 1, "refused": refused}


def test_many_go_in_bounded_calls_until_nothing_remains(muster: Muster) -> None:
    muster.answers[f"GET {JOBS}"] = {"totalItems": 250}
    muster.answers[f"POST {JOBS}/ignore"] = [
        changed(100, 150, "a"),
        changed(100, 50, "b"),
        changed(50),
    ]
    run = muster.run("jobs", "ignore", "--pool", "slow", "--yes")
    assert run.exit_code == 0, run.output
    assert run.stdout == "250 jobs put aside.\n"
    counting = muster.requests[0].url.params
    assert dict(counting) == {
        "status": "ERROR",
        "ignored": "false",
        "pool": "slow",
        "page": "0",
        "size": "1",
    }
    bodies = [sent(muster, place) for place in (1, 2, 3)]
    assert bodies == [
        {"pool": "slow", "limit": 100},
        {"pool": "slow", "limit": 100, "cursor": "a"},
        {"pool": "slow", "limit": 100, "cursor": "b"},
    ]


def test_everything_that_waits_is_cancelled(muster: Muster) -> None:
    muster.answers[f"GET {JOBS}"] = {"totalItems": 0}
    muster.answers[f"POST {JOBS}/cancel"] = changed()
    run = muster.run("jobs", "cancel", "--all")
    assert run.stdout == "0 jobs cancelled.\n", "where there is nothing, nobody is asked"
    assert muster.requests[0].url.params.get_list("status") == ["QUEUED", "PENDING"]
    assert sent(muster) == {"all": True, "limit": 100}


def test_many_are_changed_only_if_somebody_says_so(
    muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    muster.answers[f"GET {JOBS}"] = {"totalItems": 12_000}
    muster.answers[f"POST {JOBS}/requeue"] = changed(3)
    alone = muster.run("jobs", "requeue", "--all")
    assert alone.exit_code == 2
    assert alone.stderr == (
        "Deliver 12,000 jobs or more again? Give --yes, as nobody can be asked here.\n"
    )
    monkeypatch.setattr(asking, "is_asked", lambda: True)
    no = muster.run("jobs", "requeue", "--all", stdin="n\n")
    assert no.exit_code == 1
    assert [request.method for request in muster.requests] == ["GET", "GET"]
    yes = muster.run("jobs", "requeue", "--all", stdin="y\n")
    assert yes.stdout.endswith("3 jobs queued again.\n")


# Recovering


def failed(number: int, at: str) -> dict[str, Any]:
    return {**JOB, "id": f"0PJ3F6SK81V{number:02}", "lastAttemptAt": at}


def test_recover_shows_first_what_it_would_do(muster: Muster) -> None:
    muster.answers[f"GET {JOBS}"] = [
        {
            "items": [failed(1, "2030-01-01T09:00:00Z"), failed(2, "2030-01-01T11:00:00Z")],
            "nextCursor": "c",
        },
        {"items": [failed(3, "2030-01-01T12:00:00Z")], "nextCursor": None},
    ]
    since = ("--since", "2030-01-01T10:00:00Z", "--until", "2030-01-01T12:00:00Z")
    run = muster.run("jobs", "recover", *since, "--pool", "p", "--dry-run")
    assert run.exit_code == 0, run.output
    assert run.stdout.startswith("1 job would be delivered again.\n")
    assert "0PJ3F6SK81V02" in run.stdout
    assert "0PJ3F6SK81V03" not in run.stdout
    assert [request.method for request in muster.requests] == ["GET", "GET"]
    first = muster.requests[0].url.params
    assert (first["status"], first["ignored"], first["pool"]) == ("ERROR", "false", "p")
    assert muster.requests[1].url.params["cursor"] == "c"


def test_recover_asks_and_then_goes_on_until_nothing_remains(muster: Muster) -> None:
    page = {"items": [failed(n, "2030-01-01T11:00:00Z") for n in range(30)], "nextCursor": None}
    muster.answers[f"GET {JOBS}"] = page
    muster.answers[f"POST {JOBS}/recover"] = [changed(20, 10, "c"), changed(10)]
    since = ("--since", "2030-01-01T10:00:00Z", "--subscription", "sub_1")
    shown = muster.run("jobs", "recover", *since, "--dry-run").stdout
    assert "… and 10 more" in shown
    told = muster.run("jobs", "recover", *since).stderr
    assert told.startswith("Deliver 30 jobs again? Give --yes")
    run = muster.run("jobs", "recover", *since, "--yes", "--batch", "20")
    assert run.stdout == "30 jobs queued again.\n"
    body = {"since": "2030-01-01T10:00:00Z", "subscriptionId": "sub_1", "limit": 20}
    assert (sent(muster, -2), sent(muster)) == (body, {**body, "cursor": "c"})
    as_json = json.loads(muster.run("jobs", "recover", *since, "--dry-run", "--json").stdout)
    assert as_json["count"] == 30


def test_ids_are_sent_in_parts_that_muster_takes() -> None:
    ids = [f"{number:013}" for number in range(501)]
    parts = by_ids([*ids, ids[0]])
    assert [len(part["ids"]) for part in parts] == [500, 1]
    assert [counted(number) for number in (1, 9_999, 10_000)] == [
        "1 job",
        "9,999 jobs",
        "10,000 jobs or more",
    ]


# Groups


def test_groups_are_listed_with_what_heads_them(muster: Muster) -> None:
    idle = {**GROUP, "name": "idle", "state": "empty", "head": None, "waiting": 0, "parked": None}
    muster.answers[f"GET {GROUPS}"] = {"items": [GROUP, idle], "nextCursor": "c"}
    run = muster.run("groups", "list", "--state", "blocked", "--pool", "p")
    assert dict(muster.requests[0].url.params) == {"state": "blocked", "pool": "p", "limit": "50"}
    for text in ("billing:customer-4", "blocked", "1,000 or more", "1m 5s", "--cursor c"):
        assert text in run.stdout
    muster.answers[f"GET {GROUPS}"] = {"items": [], "nextCursor": None}
    assert muster.run("groups", "list").stdout == "No groups.\n"


def test_a_group_is_shown_with_what_waits_behind_its_head(muster: Muster) -> None:
    path = f"GET {GROUPS}/billing:customer/4"
    muster.answers[path] = {**GROUP, "jobs": [JOB], "nextCursor": "c"}
    run = muster.run("groups", "show", "billing:customer/4", "--pool", "p")
    assert muster.requests[0].url.raw_path.startswith(b"/api/dispatch-groups/billing:customer%2F4?")
    for text in ("by ab12", ": disputed", f"{ID}, ERROR, made 1m 5s ago", "--cursor c"):
        assert text in run.stdout
    muster.answers[path] = {**GROUP, "head": None, "jobs": [], "nextCursor": None}
    assert "sequence" not in muster.run("groups", "show", "billing:customer/4").stdout


@pytest.mark.parametrize(
    ("words", "body", "params", "told"),
    [
        (["park", "g", "--reason", "r"], {"reason": "r"}, {}, "is held back"),
        (["park", "g"], {}, {}, "is held back"),
        (["resume", "g", "--pool", "p"], {}, {"pool": "p"}, "goes on"),
        (["skip", "g", "--job", ID], {}, {"jobId": ID}, "goes on without its head"),
    ],
)
def test_a_group_is_held_back_and_set_free(
    words: list[str], body: Any, params: dict[str, str], told: str, muster: Muster
) -> None:
    muster.answers[f"POST {GROUPS}/g/{words[0]}"] = {**GROUP, "waiting": 2}
    run = muster.run("groups", *words)
    assert run.stdout == f"Group billing:customer-4 {told}: blocked, 2 to deliver\n"
    assert sent(muster) == body
    assert dict(muster.requests[0].url.params) == params


def test_a_group_that_is_done_is_told_so(muster: Muster) -> None:
    missing = httpx.Response(404, json={"detail": "dispatch group g does not exist"})
    told = "Nothing waits in group g, and nothing failed: see `muster groups list`.\n"
    muster.answers[f"GET {GROUPS}/g"] = missing
    assert muster.run("groups", "show", "g").stderr == told
    for verb in ("resume", "skip"):
        muster.answers[f"POST {GROUPS}/g/{verb}"] = missing
        assert muster.run("groups", verb, "g").stderr == told
    muster.answers[f"POST {GROUPS}/g/skip"] = httpx.Response(409, json={"detail": "not its head"})
    assert muster.run("groups", "skip", "g").stderr == "Not its head.\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["jobs", "show", "17"], "'17' is no job's id: see `muster jobs list`."),
        (["jobs", "resend", "0PJ3F6SK81VBU"], "is no job's id"),
        (["jobs", "requeue", ID, "x"], "'x' is no job's id"),
        (["jobs", "requeue"], "Name jobs: ids, or filters"),
        (["jobs", "cancel", ID, "--all"], "Name jobs: ids, or filters"),
        (["jobs", "ignore", "--group", "g", "--all"], "Name jobs: ids, or filters"),
        (["jobs", "post", "c", "http://x/", "-d", "{"], "is not JSON"),
        (["jobs", "post", "c", "http://x/", "--delay", "0.5s"], "whole seconds"),
        (["jobs", "post", "c", "http://x/", "--header", "X"], "write NAME=VALUE"),
        (["jobs", "post", "c", "http://x/", "--metadata", "X"], "is no metadata"),
        (["jobs", "recover", "--since", "soon"], "is not a duration"),
        (["jobs", "recover"], "--since"),
        (["jobs", "list", "--status", "lost"], "expired"),
        (["groups", "list", "--state", "odd"], "blocked"),
    ],
)
def test_what_cannot_be_right_is_said_before_anything_is_sent(
    words: list[str], told: str, muster: Muster
) -> None:
    run = muster.run(*words)
    assert run.exit_code == 2
    assert told in run.stderr
    assert not muster.requests
