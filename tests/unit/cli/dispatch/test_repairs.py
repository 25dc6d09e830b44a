"""`muster jobs` puts right what went wrong: one by one, many at once, all since a time."""

import json
from typing import Any

import httpx
import pytest

from cli.dispatch.job_actions import MAX_COUNTED, count_in_words
from cli.shell import context
from cli.shell.bulk import requests_by_ids
from tests.support.command_line import FakeMuster
from tests.unit.cli.dispatch.documents import ID, JOB, JOBS, sent

OTHER = "0PJ3F6SK81VB9"


def changed(done: int = 0, remaining: int = 0, cursor: str | None = None, **more: Any) -> Any:
    return {
        "changed": done,
        "refused": [],
        "remaining": remaining,
        "nextCursor": cursor,
        **more,
    }


# Putting right


@pytest.mark.parametrize(
    ("verb", "done"),
    [
        ("requeue", "queued again"),
        ("cancel", "cancelled"),
        ("complete", "marked as completed"),
        ("ignore", "ignored"),
    ],
)
def test_one_job_is_changed_without_a_question(verb: str, done: str, muster: FakeMuster) -> None:
    muster.answers[f"POST {JOBS}/{ID}/{verb}"] = JOB
    assert muster.run("jobs", verb, ID).stdout == f"Job {ID} is {done}: ERROR\n"
    problem = {"detail": "the job is being delivered; wait until that has ended"}
    muster.answers[f"POST {JOBS}/{ID}/{verb}"] = httpx.Response(409, json=problem)
    run = muster.run("jobs", verb, ID)
    assert run.exit_code == 1
    assert run.stderr == "The job is being delivered; wait until that has ended.\n"


def test_a_job_is_delivered_once_more(muster: FakeMuster) -> None:
    muster.answers[f"POST {JOBS}/{ID}/resend"] = JOB
    assert (
        muster.run("jobs", "resend", ID).stdout
        == f"Job {ID} is queued to be delivered once more.\n"
    )


def test_some_by_their_ids_with_those_that_were_left(muster: FakeMuster) -> None:
    refused = [{"id": OTHER, "result": "in_progress", "status": "IN_PROGRESS"}]
    muster.answers[f"POST {JOBS}/requeue"] = changed(1, refused=refused)
    run = muster.run("jobs", "requeue", ID, OTHER, ID)
    assert run.exit_code == 1, "one was left"
    assert sent(muster) == {"ids": [ID, OTHER], "limit": 100}
    assert run.stdout.startswith("1 job queued again.\n")
    assert "it is being delivered" in run.stdout
    assert run.stderr == "1 job not changed:\n"
    as_json = json.loads(muster.run("jobs", "requeue", ID, OTHER, "--json").stdout)
    assert as_json == {"changed": 1, "refused": refused}


def test_many_go_in_bounded_calls_until_nothing_remains(muster: FakeMuster) -> None:
    muster.answers[f"GET {JOBS}"] = {"totalItems": 250}
    muster.answers[f"POST {JOBS}/ignore"] = [
        changed(100, 150, "a"),
        changed(100, 50, "b"),
        changed(50),
    ]
    run = muster.run("jobs", "ignore", "--pool", "slow", "--yes")
    assert run.exit_code == 0, run.output
    assert run.stdout == "250 jobs ignored.\n"
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


def test_everything_that_waits_is_cancelled(muster: FakeMuster) -> None:
    muster.answers[f"GET {JOBS}"] = {"totalItems": 0}
    muster.answers[f"POST {JOBS}/cancel"] = changed()
    run = muster.run("jobs", "cancel", "--all")
    assert run.stdout == "0 jobs cancelled.\n", "where there is nothing, nobody is asked"
    assert muster.requests[0].url.params.get_list("status") == ["QUEUED", "PENDING"]
    assert sent(muster) == {"all": True, "limit": 100}


def test_many_are_changed_only_if_somebody_says_so(
    muster: FakeMuster, monkeypatch: pytest.MonkeyPatch
) -> None:
    muster.answers[f"GET {JOBS}"] = {"totalItems": 12_000}
    muster.answers[f"POST {JOBS}/requeue"] = changed(3)
    alone = muster.run("jobs", "requeue", "--all")
    assert alone.exit_code == 2
    assert alone.stderr == (
        "Deliver 12,000 jobs or more again? Give --yes to confirm: "
        "there is no terminal to ask on.\n"
    )
    monkeypatch.setattr(context, "has_terminal", lambda: True)
    no = muster.run("jobs", "requeue", "--all", stdin="n\n")
    assert no.exit_code == 1
    assert [request.method for request in muster.requests] == ["GET", "GET"]
    yes = muster.run("jobs", "requeue", "--all", stdin="y\n")
    assert yes.stdout.endswith("3 jobs queued again.\n")


# Recovering


def failed(number: int, at: str) -> dict[str, Any]:
    return {**JOB, "id": f"0PJ3F6SK81V{number:02}", "lastAttemptAt": at}


def test_recover_shows_first_what_it_would_do(muster: FakeMuster) -> None:
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


def test_recover_asks_and_then_goes_on_until_nothing_remains(muster: FakeMuster) -> None:
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
    parts = requests_by_ids([*ids, ids[0]])
    assert [len(part["ids"]) for part in parts] == [500, 1]
    assert [count_in_words(number, MAX_COUNTED) for number in (1, 9_999, 10_000)] == [
        "1 job",
        "9,999 jobs",
        "10,000 jobs or more",
    ]
