"""`muster jobs` from the words typed to the requests and the output: looking and posting."""

import httpx
import pytest

from tests.support.command_line import FakeMuster
from tests.unit.cli.dispatch.documents import ID, JOB, JOBS, sent

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

# Looking


def test_jobs_are_listed_by_their_filters(muster: FakeMuster) -> None:
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
    for text in (
        ID,
        "billing:customer-4",
        "3 of 3",
        "127.0.0.1:9/hook",
        "HTTP 500",
        f"--cursor {ID}",
    ):
        assert text in run.stdout
    muster.answers[f"GET {JOBS}"] = {"items": [], "nextCursor": None}
    assert muster.run("jobs", "list").stdout == "No jobs.\n"


def test_a_subscription_may_be_named_by_its_code(muster: FakeMuster) -> None:
    muster.answers["GET /api/subscriptions/billing"] = {"id": "sub_7", "code": "billing"}
    muster.answers[f"GET {JOBS}"] = {"items": [], "nextCursor": None}
    muster.run("jobs", "list", "--subscription", "billing")
    assert muster.requests[-1].url.params["subscriptionId"] == "sub_7"
    missing = httpx.Response(404, json={"detail": "there is no such subscription"})
    muster.answers["GET /api/subscriptions/billing"] = missing
    told = muster.run("jobs", "list", "--subscription", "billing").stderr
    assert told == "There is no subscription billing: see `muster subscriptions list`.\n"


def test_a_job_is_shown_with_its_attempts_and_what_it_brings(muster: FakeMuster) -> None:
    muster.answers[f"GET {JOBS}/{ID}"] = SHOWN
    shown = muster.run("jobs", "show", ID).stdout
    for text in ("(with credentials)", "BLOCK_ON_ERROR, sequence 99", "SERVER_ERROR", "oh no"):
        assert text in shown
    assert '"ü": 1' in shown
    gone = {**SHOWN, "attempts": [], "payloadEncoding": "none", "ignored": True}
    muster.answers[f"GET {JOBS}/{ID}"] = gone
    shown = muster.run("jobs", "show", ID).stdout
    for text in ("No attempt was made yet.", "The payload is no longer stored.", "ERROR (ignored)"):
        assert text in shown
    for encoding, told in (("base64", "/w==  (base64: not JSON)"), ("text", "/w==\n")):
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


def test_a_job_is_posted_with_what_was_given(muster: FakeMuster) -> None:
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


# Refusals


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["jobs", "show", "17"], "'17' is not a valid job id: see `muster jobs list`."),
        (["jobs", "resend", "0PJ3F6SK81VBU"], "is not a valid job id"),
        (["jobs", "requeue", ID, "x"], "'x' is not a valid job id"),
        (["jobs", "requeue"], "Name jobs by ids, by filters"),
        (["jobs", "cancel", ID, "--all"], "Name jobs by ids, by filters"),
        (["jobs", "ignore", "--group", "g", "--all"], "Name jobs by ids, by filters"),
        (["jobs", "post", "c", "http://x/", "-d", "{"], "is not JSON"),
        (["jobs", "post", "c", "http://x/", "--delay", "0.5s"], "whole seconds"),
        (["jobs", "post", "c", "http://x/", "--header", "X"], "write NAME=VALUE"),
        (["jobs", "post", "c", "http://x/", "--metadata", "X"], "is not a metadata"),
        (["jobs", "recover", "--since", "soon"], "is not a time"),
        (["jobs", "recover"], "--since"),
        (["jobs", "list", "--status", "lost"], "expired"),
        (["groups", "list", "--state", "odd"], "blocked"),
    ],
)
def test_what_cannot_be_right_is_said_before_anything_is_sent(
    words: list[str], told: str, muster: FakeMuster
) -> None:
    run = muster.run(*words)
    assert run.exit_code == 2
    assert told in run.stderr
    assert not muster.requests
