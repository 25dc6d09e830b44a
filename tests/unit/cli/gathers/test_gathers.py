"""`muster resources` and `muster gather` from the words typed to the request and the output."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.command_line import FakeMuster

RESOURCE: dict[str, Any] = {
    "name": "laboratory",
    "url": "http://127.0.0.1:9/ask",
    "method": "POST",
    "headers": {"X-Unit": "•••"},
    "auth": {"type": "basic", "secret": "•••"},
    "connectTimeoutMs": 5_000,
    "readTimeoutMs": 30_000,
    "ratePerMinute": 1_200,
    "concurrency": 50,
    "reply": "direct",
    "updatedAt": "2030-01-01T00:00:00Z",
}
STARTED = {
    "id": "g1",
    "correlationId": "g1",
    "status": "waiting",
    "accepted": 0,
    "resources": ["laboratory", "pharmacy"],
    "timeoutMs": 10_000,
    "expiresAt": "2030-01-01T00:00:00Z",
}
TALLY = {"respondents": 1, "errors": 1, "received": 2, "expected": 2, "completeness": "partial"}
GATHER = {
    "id": "g1",
    "correlationId": "g1",
    "status": "completed",
    **TALLY,
    "context": {"patient": "17"},
    "createdAt": "2030-01-01T00:00:00Z",
    "resources": {
        "laboratory": {"state": "ok", "at": "2030-01-01T00:00:01Z", "data": {"ü": 1}},
        "pharmacy": {"state": "CONNECTION_CLOSED", "detail": "it hung up"},
    },
}
FULL = {"respondents": 2, "errors": 0, "completeness": "full"}
STREAM = (
    "retry: 1000\n\n: beat\n\n"
    'id: 1\nevent: callback\ndata: {"source": "laboratory", "status": "ok", '
    '"at": "2030-01-01T00:00:00.5Z", "data": {"ü": 1}}\n\n'
    'id: 2\nevent: error\ndata: {"source": "pharmacy", "status": "ERROR", "detail": "500"}\n\n'
    "id: 3\nevent: summary\ndata: %s\n\n"
)


def body_of(muster: FakeMuster) -> Any:
    return json.loads(muster.requests[0].content)


def answer_stream(muster: FakeMuster, **changes: Any) -> None:
    summary = {"source": "MUSTER", "status": "completed", **TALLY, **changes}
    text = STREAM % json.dumps(summary)
    muster.answers["GET /api/gathers/g1/stream"] = httpx.Response(200, text=text)


@pytest.mark.parametrize(
    "words",
    [
        *(["resources", name] for name in ("list", "show", "put", "rm")),
        *(["gather", name] for name in ("run", "show", "stream", "cancel")),
        *(["demo", name] for name in ("waits", "gather")),
    ],
    ids=" ".join,
)
def test_every_command_has_help_with_an_example(words: list[str], muster: FakeMuster) -> None:
    shown = muster.run(*words, "--help")
    assert shown.exit_code == 0, shown.output
    assert f"muster {words[0]}" in shown.stdout.rpartition("Example")[2]


def test_a_resource_is_put_with_what_was_given(muster: FakeMuster) -> None:
    muster.answers["PUT /api/resources/a%2Fb"] = httpx.Response(201, json=RESOURCE)
    muster.answers["PUT /api/resources/a/b"] = httpx.Response(201, json=RESOURCE)
    words = ("--header", "X-Unit=7", "--reply", "direct", "--read-timeout", "1.5s")
    run = muster.run(
        "resources", "put", "a/b", "http://x/", *words, "--rate", "60", "--basic", "me:p:w"
    )
    assert run.exit_code == 0, run.output
    assert run.stdout == "Resource a/b is registered.\n"
    assert muster.requests[0].url.raw_path == b"/api/resources/a%2Fb"
    assert body_of(muster) == {
        "url": "http://x/",
        "headers": {"X-Unit": "7"},
        "reply": "direct",
        "readTimeoutMs": 1_500,
        "ratePerMinute": 60,
        "auth": {"type": "basic", "username": "me", "password": "p:w"},
    }


def test_a_secret_is_read_from_a_file_or_standard_input(muster: FakeMuster, tmp_path: Path) -> None:
    muster.answers["PUT /api/resources/lab"] = RESOURCE
    file = tmp_path / "token"
    file.write_text("hush\n")
    for given, stdin in ((f"@{file}", None), ("-", "hush\n"), ("hush", None)):
        muster.requests.clear()
        run = muster.run("resources", "put", "lab", "http://x", "--bearer", given, stdin=stdin)
        assert run.exit_code == 0, run.output
        assert body_of(muster) == {"url": "http://x", "auth": {"type": "bearer", "token": "hush"}}


def test_resources_are_listed_and_shown(muster: FakeMuster) -> None:
    muster.answers["GET /api/resources"] = {"items": [RESOURCE]}
    listed = muster.run("resources", "list").stdout
    for text in ("laboratory", "http://127.0.0.1:9/ask", "directly", "basic", "1,200"):
        assert text in listed
    page = {"items": [RESOURCE], "nextCursor": "laboratory"}
    muster.answers["GET /api/resources"] = page
    paged = muster.run("resources", "list", "--limit", "1", "--cursor", "a")
    assert "--cursor laboratory" in paged.stdout
    assert dict(muster.requests[-1].url.params) == {"limit": "1", "cursor": "a"}
    assert json.loads(muster.run("resources", "list", "--json").stdout) == page
    muster.answers["GET /api/resources/laboratory"] = RESOURCE
    shown = muster.run("resources", "show", "laboratory").stdout
    assert "X-Unit: •••" in shown
    assert "POST http://127.0.0.1:9/ask" in shown
    assert "30s" in shown
    muster.answers["GET /api/resources"] = {"items": []}
    assert muster.run("resources", "list").stdout == "No resources.\n"


def test_removing_a_resource(muster: FakeMuster) -> None:
    muster.answers["DELETE /api/resources/lab"] = httpx.Response(204)
    assert muster.run("resources", "rm", "lab").stdout == "Resource lab is removed.\n"
    assert json.loads(muster.run("resources", "rm", "lab", "--json").stdout)["removed"] is True
    muster.answers["DELETE /api/resources/lab"] = httpx.Response(404, json={"detail": "none"})
    gone = muster.run("resources", "rm", "lab")
    assert gone.exit_code == 1
    assert gone.stderr == "There is no resource lab: see `muster resources list`.\n"


def test_run_asks_and_prints_answers_as_they_come(muster: FakeMuster) -> None:
    muster.answers["POST /api/gathers"] = httpx.Response(202, json=STARTED)
    answer_stream(muster)
    words = ("--timeout", "2.5s", "--context", '{"patient": "17"}')
    run = muster.run("gather", "run", "laboratory", "pharmacy=http://x/?a=b", *words)
    assert body_of(muster) == {
        "resources": ["laboratory", {"name": "pharmacy", "url": "http://x/?a=b"}],
        "mode": "stream",
        "timeoutMs": 2_500,
        "context": {"patient": "17"},
    }
    assert run.exit_code == 1, "one did not answer"
    _, asks, _, first, second, last = run.stdout.splitlines()
    assert asks.split(maxsplit=1) == ["asks", "laboratory, pharmacy"]
    assert first.endswith('ok                 laboratory  {"ü": 1}')
    assert second.endswith("ERROR              pharmacy  500")
    assert last.endswith("completed  1 of 2 answered, 1 failed, partial")


def test_run_as_lines_of_json_begins_with_the_id(muster: FakeMuster) -> None:
    muster.answers["POST /api/gathers"] = httpx.Response(202, json=STARTED)
    answer_stream(muster, **FULL)
    run = muster.run("gather", "run", "laboratory", "--json")
    assert run.exit_code == 0
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["started", "callback", "error", "summary"]
    assert (lines[0]["id"], lines[1]["data"]) == ("g1", {"ü": 1})


def test_run_detached_only_starts_it(muster: FakeMuster) -> None:
    muster.answers["POST /api/gathers"] = httpx.Response(202, json=STARTED)
    run = muster.run("gather", "run", "laboratory", "--detach", "--json")
    assert (run.exit_code, json.loads(run.stdout)) == (0, STARTED)
    assert body_of(muster)["onDisconnect"] == "detach"


@pytest.mark.parametrize(("tally", "code"), [(TALLY, 1), (FULL, 0)])
def test_run_may_wait_for_everyone(tally: dict[str, Any], code: int, muster: FakeMuster) -> None:
    muster.answers["POST /api/gathers"] = {**GATHER, **tally}
    run = muster.run("gather", "run", "laboratory", "--mode", "wait")
    assert run.exit_code == code
    assert body_of(muster)["mode"] == "wait"
    assert f"{tally['respondents']} of 2 answered" in run.stdout
    assert '{"ü": 1}' in run.stdout
    assert "it hung up" in run.stdout


def test_show_stream_and_cancel(muster: FakeMuster) -> None:
    muster.answers["GET /api/gathers/g1"] = GATHER
    shown = muster.run("gather", "show", "g1")
    assert shown.exit_code == 0, "looking at it is no failure"
    assert "CONNECTION_CLOSED" in shown.stdout
    assert '{"patient": "17"}' in shown.stdout
    assert json.loads(muster.run("gather", "show", "g1", "--json").stdout) == GATHER
    answer_stream(muster)
    assert muster.run("gather", "stream", "g1").exit_code == 1
    answer_stream(muster, **FULL)
    assert muster.run("gather", "stream", "g1", "--json").exit_code == 0
    muster.answers["DELETE /api/gathers/g1"] = {"status": "cancelled"}
    assert muster.run("gather", "cancel", "g1").stdout == "Gather g1 is cancelled.\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["resources", "put", "n", "http://x", "--header", "none"], "write NAME=VALUE"),
        (["resources", "put", "n", "http://x", "--basic", "me"], "USER:PASSWORD"),
        (
            ["resources", "put", "n", "u", "--basic", "a:b", "--bearer", "t"],
            "Give --bearer or --basic, not both",
        ),
        (["resources", "put", "n", "u", "--bearer", "@/nowhere"], "Cannot read /nowhere"),
        (["resources", "put", "n", "u", "--read-timeout", "soon"], "is not a duration"),
        (["gather", "run", "a", "--context", "[]"], "Expected a JSON object"),
        (["gather", "run", "a", "--timeout", "soon"], "is not a duration"),
        (["gather", "run", "a", "--timeout", "28s"], "at most 27s"),
        (["gather", "run", "a="], "write its name, or NAME=URL"),
        (["gather", "run", "a", "--detach", "--mode", "wait"], "cannot be combined with"),
        (["gather", "run", "a", "--mode", "never"], "stream"),
        (["gather", "run"], "Missing argument"),
    ],
)
def test_what_cannot_be_right_is_said_before_anything_is_sent(
    words: list[str], told: str, muster: FakeMuster
) -> None:
    run = muster.run(*words)
    assert run.exit_code == 2
    assert told in run.stderr
    assert not muster.requests


def test_a_refused_gather_is_the_server_s_sentence(muster: FakeMuster) -> None:
    problem = httpx.Response(422, json={"detail": "there is no resource lab"})
    muster.answers["POST /api/gathers"] = problem
    run = muster.run("gather", "run", "lab")
    assert run.exit_code == 1
    assert run.stderr == "There is no resource lab.\n"
