"""Commands from the words typed to the request sent, the output and the exit code."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from cli.commands import COMMANDS
from cli.kafka.command import COMMANDS as KAFKA_COMMANDS
from tests.support.command_line import FakeMuster

OPENED = {
    "waitStateId": "e:c",
    "executionId": "e",
    "correlationId": "c",
    "status": "waiting",
    "enabledEvents": ["api_response"],
    "expiresAt": "2030-01-01T00:00:00Z",
    "callbackUrl": f"http://127.0.0.1:8000/api/internal/callbacks/x?token={'t' * 200}",
}
WAIT = {
    "waitStateId": "e:c",
    "status": "completed",
    "reason": "strategy all is satisfied",
    "aggregationStrategy": "all",
    "onTimeout": "fail",
    "events": {"api_response": {"outcome": "received", "source": "api", "data": {"ü": 1}}},
    "output": {"api_response": {"ü": 1}},
}
CALLBACKS = "POST /api/internal/callbacks/external-service"


def body_of(muster: FakeMuster) -> object:
    return json.loads(muster.requests[-1].content)


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    heavy = {"ray", "fastapi", "httpx", "asyncpg", "pydantic"}
    code = f"import sys, cli.commands; print({heavy!r} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


def test_ctrl_c_while_it_is_still_importing_is_no_traceback() -> None:
    code = """
import signal, sys
class Impatient:
    def find_spec(self, name, *_):
        if name == "typer":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Impatient())
from cli.main import main
main()
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "")


def test_the_first_page_of_help_lists_every_command(muster: FakeMuster) -> None:
    shown = muster.run("--help")
    assert shown.exit_code == 0
    for entry in COMMANDS:
        assert f"{entry.name} " in shown.stdout


@pytest.mark.parametrize(
    "words",
    [
        *([entry.name] for entry in COMMANDS),
        *(["wait", name] for name in ("register", "show", "list", "cancel", "explain")),
        *(["keys", name] for name in ("create", "list", "revoke")),
        *(["quotas", name] for name in ("list", "set", "clear")),
        *(["kafka", entry.name] for entry in KAFKA_COMMANDS),
        *(["kafka", "dead-letters", name] for name in ("list", "show", "delete")),
    ],
    ids=" ".join,
)
def test_every_command_has_help_with_an_example(words: list[str], muster: FakeMuster) -> None:
    shown = muster.run(*words, "--help")
    assert shown.exit_code == 0, shown.output
    assert "Example" in shown.stdout
    assert f"muster {words[0]}" in shown.stdout.rpartition("Example")[2]


@pytest.mark.parametrize(
    "config", ['{"timeout": 5}', '{"type": "wait_events", "data": {"timeout": 5}}']
)
def test_register_takes_the_data_block_and_the_whole_node(config: str, muster: FakeMuster) -> None:
    muster.answers["POST /api/wait-states"] = httpx.Response(201, json=OPENED)
    run = muster.run("wait", "register", config, "--execution", "e", "--node", "n", "--key", "k")
    assert run.exit_code == 0, run.output
    sent = body_of(muster)
    assert isinstance(sent, dict)
    assert sent.pop("type", "wait_events") == "wait_events"
    assert sent == {"data": {"timeout": 5}, "executionId": "e", "nodeId": "n"}
    assert muster.instances[0].key == "k"
    assert f"{OPENED['callbackUrl']}\n" in run.stdout, "the URL may not be broken over lines"


def test_register_reads_standard_input(muster: FakeMuster) -> None:
    muster.answers["POST /api/wait-states"] = httpx.Response(201, json=OPENED)
    run = muster.run("wait", "register", "-", "--json", stdin='{"timeout": 5}')
    assert json.loads(run.stdout) == OPENED
    assert body_of(muster) == {"data": {"timeout": 5}}


def test_show_says_what_came_and_asks_the_server_to_wait(muster: FakeMuster) -> None:
    muster.answers["GET /api/wait-states/e/c"] = WAIT
    run = muster.run("wait", "show", "e", "c", "--wait", "30s")
    assert run.exit_code == 0, run.output
    assert muster.requests[0].url.params["wait"] == "30.0"
    assert "strategy all is satisfied" in run.stdout
    assert '{"ü": 1}' in run.stdout


def test_list_sends_its_filters_and_tells_of_more(muster: FakeMuster) -> None:
    muster.answers["GET /api/wait-states"] = {"items": [WAIT | OPENED], "nextCursor": "abc"}
    run = muster.run("wait", "list", "--status", "waiting", "--older-than", "15m", "--limit", "7")
    assert run.exit_code == 0, run.output
    assert dict(muster.requests[0].url.params) == {
        "status": "waiting",
        "olderThan": "900.0",
        "limit": "7",
    }
    assert "--cursor abc" in run.stdout


def test_explain_tells_the_near_misses(muster: FakeMuster) -> None:
    muster.answers["GET /api/wait-states/e/c/explain"] = {
        "summary": "waiting: strategy all has 0 of 1",
        "events": {"kafka_event": "not here yet"},
        "nearMisses": [
            {"source": "kafka", "label": "t", "eventId": "x", "sentence": "expected 1, got 2"}
        ],
    }
    run = muster.run("wait", "explain", "e", "c")
    assert "strategy all has 0 of 1" in run.stdout
    assert "kafka t x: expected 1, got 2" in run.stdout


def test_cancel_of_an_ended_wait_fails_with_the_server_s_sentence(muster: FakeMuster) -> None:
    problem = httpx.Response(409, json={"detail": "e:c has ended as completed"})
    muster.answers["DELETE /api/wait-states/e/c"] = problem
    run = muster.run("wait", "cancel", "e", "c")
    assert run.exit_code == 1
    assert run.stderr == "e:c has ended as completed.\n"


@pytest.mark.parametrize(
    ("verdict", "code"),
    [("matched", 0), ("buffered", 0), ("duplicate", 0), ("late", 1), ("rejected", 1)],
)
def test_send_ends_as_the_verdict_says(verdict: str, code: int, muster: FakeMuster) -> None:
    muster.answers[CALLBACKS] = {"verdict": verdict, "reason": "r", "detail": "because"}
    run = muster.run("send", "e", "c", "--data", '{"a": 1}', "--event-id", "7")
    assert run.exit_code == code
    assert f"{verdict}  because" in run.stdout
    headers = muster.requests[0].headers
    assert [headers[f"X-{name}-Id"] for name in ("Execution", "Correlation", "Event")] == [
        "e",
        "c",
        "7",
    ]
    assert body_of(muster) == {"a": 1}


def test_send_with_a_token_shows_no_key(muster: FakeMuster) -> None:
    muster.answers[CALLBACKS] = {"verdict": "matched"}
    run = muster.run("send", "e", "c", "--token", "signed", "--key", "mk_a_b")
    assert run.exit_code == 0
    assert muster.instances[0].key is None
    assert muster.requests[0].headers["X-Callback-Token"] == "signed"


def test_send_with_a_topic_is_a_kafka_event(muster: FakeMuster) -> None:
    muster.answers["POST /api/internal/events/process.completed"] = {"verdict": "matched"}
    assert muster.run("send", "e", "c", "--topic", "process.completed").exit_code == 0


def test_ids_that_no_header_can_carry_go_into_the_body(muster: FakeMuster) -> None:
    muster.answers[CALLBACKS] = {"verdict": "matched"}
    assert muster.run("send", "größe", "c", "--data", '{"a": 1}').exit_code == 0
    assert "X-Execution-Id" not in muster.requests[0].headers
    assert body_of(muster) == {"a": 1, "execution_id": "größe", "correlation_id": "c"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["send", "e", "c", "--data", "{"], "is not JSON"),
        (["send", "e", "c", "--data", "@/nowhere"], "Cannot read /nowhere"),
        (["send", "e", "c", "--topic", "t", "--service", "s"], "--topic cannot be combined"),
        (["send", "größe", "c", "--data", "1"], "need a JSON object"),
        (["send", "e", "c\n"], "printable ASCII"),
        (["wait", "show", "e", "c", "--wait", "2m"], "at most 60s"),
        (["wait", "show", "e", "c", "--wait", "soon"], "is not a duration"),
        (["wait", "register", "[]"], "Expected a JSON object"),
        (["keys", "create", "n", "--expires-in", "1y"], "is not a duration"),
        (["keys", "list", "--url", "nowhere"], "is not an address"),
    ],
)
def test_what_cannot_be_right_is_said_before_anything_is_sent(
    words: list[str], told: str, muster: FakeMuster
) -> None:
    run = muster.run(*words)
    assert run.exit_code == 2
    assert told in run.stderr
    assert not muster.requests


def test_an_unknown_permission_or_status_names_those_that_exist(muster: FakeMuster) -> None:
    assert muster.run("keys", "create", "n", "--allow", "everything").exit_code == 2
    assert "completed" in muster.run("wait", "list", "--status", "done").stderr


def test_a_new_key_is_alone_on_standard_output(muster: FakeMuster) -> None:
    muster.answers["POST /api/keys"] = httpx.Response(201, json={"key": "mk_a_b", "prefix": "a"})
    run = muster.run("keys", "create", "ci", "--allow", "waits:read", "--expires-in", "30d")
    assert run.stdout == "mk_a_b\n"
    assert "not shown again" in run.stderr
    assert body_of(muster) == {
        "name": "ci",
        "permissions": ["waits:read"],
        "expiresInSeconds": 2_592_000.0,
    }


def test_revoking_a_key_that_is_not_there_fails(muster: FakeMuster) -> None:
    muster.answers["DELETE /api/keys/zz"] = httpx.Response(404, json={"detail": "key zz"})
    run = muster.run("keys", "revoke", "zz")
    assert run.exit_code == 1
    assert "There is no key zz" in run.stderr


def test_quotas_are_listed_with_a_bar_for_what_is_used(muster: FakeMuster) -> None:
    day = {"resetsAt": "2030-01-01T00:00:00Z", "own": False}
    muster.answers["GET /api/quotas"] = {
        "items": [
            {"name": "rowsPerDay", "used": 500, "limit": 1_000, **day},
            {"name": "bytesPerDay", "used": 900, "limit": 1_000, **day},
            {"name": "storedRows", "used": 2_000, "limit": 1_000, "own": True},
            {"name": "storedBytes", "used": 7, "limit": None, "own": False},
        ]
    }
    run = muster.run("quotas", "list")
    assert run.exit_code == 0
    lines = run.stdout.splitlines()
    assert "50%" in lines[1]
    assert lines[1].count("█") == 10
    assert "90%" in lines[2]
    assert "(own)" in lines[3]
    assert "200%" in lines[3]
    assert lines[3].count("█") == 20
    assert "none" in lines[4]
    assert json.loads(muster.run("quotas", "list", "--json").stdout)["items"][0]["used"] == 500


def test_a_quota_must_be_one_that_there_is(muster: FakeMuster) -> None:
    assert muster.run("quotas", "set", "acme", "nonsense", "5").exit_code == 2
    assert muster.run("quotas", "set", "acme", "keys", "-5").exit_code == 2


def test_keys_are_listed_without_secrets(muster: FakeMuster) -> None:
    key = {
        "prefix": "ab12",
        "name": "ci",
        "permissions": ["waits:read"],
        "createdAt": "2030-01-01T00:00:00Z",
        "revokedAt": None,
    }
    muster.answers["GET /api/keys"] = {"items": [key, key | {"revokedAt": "2030-01-01T00:00:00Z"}]}
    shown = muster.run("keys", "list").stdout
    assert shown.count("ab12") == 2
    assert "live" in shown
    assert "revoked" in shown


def test_tail_ends_with_the_result(muster: FakeMuster) -> None:
    log = (
        'event: received\nid: 1\ndata: {"event": "api_response", "source": "api", '
        '"at": "2030-01-01T00:00:00.5Z", "data": {"a": 1}}\n\n'
        'event: ended\nid: 2\ndata: {"status": "%s", "reason": "r", "output": {"a": 1}}\n\n'
    )
    path = "GET /api/wait-states/e/c/stream"
    muster.answers[path] = httpx.Response(200, text=log % "completed")
    run = muster.run("tail", "e", "c", "--json")
    assert [json.loads(line)["type"] for line in run.stdout.splitlines()] == ["received", "ended"]
    assert run.exit_code == 0
    muster.answers[path] = httpx.Response(200, text=log % "timeout")
    run = muster.run("tail", "e", "c")
    assert "timeout: r" in run.stdout
    assert run.exit_code == 1


def test_migrate_without_a_database_says_what_to_do(muster: FakeMuster, tmp_path: Path) -> None:
    run = muster.run("migrate", "--data-dir", str(tmp_path / "nothing"))
    assert run.exit_code == 1
    assert "--database-url" in run.stderr


def test_config_names_the_variable_at_fault(
    muster: FakeMuster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_PORT", "0")
    run = muster.run("config")
    assert run.exit_code == 1
    assert "MUSTER_PORT" in run.stderr


def test_config_shows_every_setting_and_its_source(
    muster: FakeMuster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_PORT", "9100")
    monkeypatch.setenv("MUSTER_DATABASE_URL", "postgresql://u:verysecret@h/d")
    run = muster.run("config", "--json")
    rows = {row["variable"]: row for row in json.loads(run.stdout)}
    assert (rows["MUSTER_PORT"]["value"], rows["MUSTER_PORT"]["source"]) == ("9100", "env")
    assert rows["MUSTER_HOST"]["source"] == "default"
    assert "verysecret" not in run.stdout


def test_the_version_is_told(muster: FakeMuster) -> None:
    assert muster.run("--version").stdout.startswith("muster ")
