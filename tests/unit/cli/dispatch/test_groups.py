"""`muster groups` from the words typed to the requests and the output."""

from typing import Any

import httpx
import pytest

from tests.support.command_line import FakeMuster
from tests.unit.cli.dispatch.documents import ID, JOB, sent

GROUPS = "/api/dispatch-groups"
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


def test_groups_are_listed_with_what_heads_them(muster: FakeMuster) -> None:
    idle = {**GROUP, "name": "idle", "state": "empty", "head": None, "waiting": 0, "parked": None}
    muster.answers[f"GET {GROUPS}"] = {"items": [GROUP, idle], "nextCursor": "c"}
    run = muster.run("groups", "list", "--state", "blocked", "--pool", "p")
    assert dict(muster.requests[0].url.params) == {"state": "blocked", "pool": "p", "limit": "50"}
    for text in ("billing:customer-4", "blocked", "1,000 or more", "1m 5s", "--cursor c"):
        assert text in run.stdout
    muster.answers[f"GET {GROUPS}"] = {"items": [], "nextCursor": None}
    assert muster.run("groups", "list").stdout == "No groups.\n"


def test_a_group_is_shown_with_what_waits_behind_its_head(muster: FakeMuster) -> None:
    path = f"GET {GROUPS}/billing:customer/4"
    muster.answers[path] = {**GROUP, "jobs": [JOB], "nextCursor": "c"}
    run = muster.run("groups", "show", "billing:customer/4", "--pool", "p")
    assert muster.requests[0].url.raw_path.startswith(b"/api/dispatch-groups/billing:customer%2F4?")
    for text in ("by ab12", ": disputed", f"{ID}, ERROR, created 1m 5s ago", "--cursor c"):
        assert text in run.stdout
    muster.answers[path] = {**GROUP, "head": None, "jobs": [], "nextCursor": None}
    assert "sequence" not in muster.run("groups", "show", "billing:customer/4").stdout


@pytest.mark.parametrize(
    ("words", "body", "params", "told"),
    [
        (["park", "g", "--reason", "r"], {"reason": "r"}, {}, "is parked"),
        (["park", "g"], {}, {}, "is parked"),
        (["resume", "g", "--pool", "p"], {}, {"pool": "p"}, "continues"),
        (["skip", "g", "--job", ID], {}, {"jobId": ID}, "continues after its head"),
    ],
)
def test_a_group_is_held_back_and_set_free(
    words: list[str], body: Any, params: dict[str, str], told: str, muster: FakeMuster
) -> None:
    muster.answers[f"POST {GROUPS}/g/{words[0]}"] = {**GROUP, "waiting": 2}
    run = muster.run("groups", *words)
    assert run.stdout == f"Group billing:customer-4 {told}: blocked, 2 to deliver\n"
    assert sent(muster) == body
    assert dict(muster.requests[0].url.params) == params


def test_a_group_that_is_done_is_told_so(muster: FakeMuster) -> None:
    missing = httpx.Response(404, json={"detail": "dispatch group g does not exist"})
    told = "Group g has no job to deliver and none that failed: see `muster groups list`.\n"
    muster.answers[f"GET {GROUPS}/g"] = missing
    assert muster.run("groups", "show", "g").stderr == told
    for verb in ("resume", "skip"):
        muster.answers[f"POST {GROUPS}/g/{verb}"] = missing
        assert muster.run("groups", verb, "g").stderr == told
    muster.answers[f"POST {GROUPS}/g/skip"] = httpx.Response(409, json={"detail": "not its head"})
    assert muster.run("groups", "skip", "g").stderr == "Not its head.\n"
