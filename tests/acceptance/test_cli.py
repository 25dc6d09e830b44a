"""The `muster` command as people and scripts use it: what it prints, how it fails, how it ends."""

import asyncio
import contextlib
import ctypes
import http.server
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from storage import embedded
from tests.support.product import BOTH, Product, free_port, new_id, run_cli, until

CALL = json.dumps({"apiCall": BOTH["apiCall"], "timeout": 60})
COMMANDS = ("up", "down", "status", "demo", "wait", "send", "tail", "keys", "migrate", "config")
CAP_DAC_OVERRIDE, PR_CAPBSET_DROP = 1, 24


def read(done: "subprocess.CompletedProcess[str]") -> Any:
    """What a script reads from the command's output."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(done: "subprocess.CompletedProcess[str]", code: int = 1) -> str:
    """The one sentence of a command that failed."""
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr.strip()


class Ids(tuple[str, str]):
    """An execution and a correlation, as the command line takes them."""

    __slots__ = ()

    @classmethod
    def new(cls) -> "Ids":
        return cls((f"e-{new_id()[:8]}", f"c-{new_id()[:8]}"))

    @property
    def options(self) -> tuple[str, ...]:
        return ("--execution", self[0], "--correlation", self[1])

    @property
    def document(self) -> dict[str, str]:
        return {"executionId": self[0], "correlationId": self[1]}


# Waits


def test_a_wait_from_registration_to_result(product: Product, tmp_path: Path) -> None:
    ids = Ids.new()
    file = tmp_path / "wait.json"
    file.write_text(json.dumps({"type": "wait_events", "data": BOTH}))
    wait = read(
        product.cli("wait", "register", f"@{file}", *ids.options, "--node", "pay", "--json")
    )
    assert (wait["nodeId"], wait["created"]) == ("pay", True)
    assert (wait["executionId"], wait["correlationId"]) == ids

    verdict = read(product.cli("send", *ids, "--data", '{"paid": 12}', "--json"))
    assert (verdict["verdict"], verdict["waitStatus"]) == ("matched", "waiting")
    story = read(product.cli("wait", "explain", *ids, "--json"))
    assert story["summary"].startswith("waiting: strategy all has 1 of 2")

    token = wait["callbackUrl"].rpartition("token=")[2]
    repeated = product.cli("send", *ids, "--token", token)
    assert repeated.stdout.startswith("duplicate ")

    topic = ("--topic", "process.completed", "--event-id", "k1")
    done = read(product.cli("send", *ids, *topic, "--data", '{"n": 1}', "--json"))
    assert done["waitStatus"] == "completed"
    shown = read(product.cli("wait", "show", *ids, "--wait", "5s", "--json"))
    assert shown["output"]["api_response"] == {"paid": 12}
    assert shown["output"]["kafka_event"] == {"n": 1}

    late = product.cli("send", *ids, check=False)
    assert late.returncode == 1
    assert late.stdout.startswith("late ")
    story = product.cli("wait", "explain", *ids)
    assert "completed after" in story.stdout


def test_what_people_read(product: Product) -> None:
    ids = Ids.new()
    registered = product.cli("wait", "register", CALL, *ids.options).stdout
    url = registered.splitlines()[-1]
    assert re.fullmatch(re.escape(product.url) + r"/api/internal/callbacks/\S+\?token=\S+", url)
    shown = product.cli("wait", "show", *ids).stdout
    assert re.search(r"status +waiting", shown)
    assert re.search(r"api_response +pending", shown)
    listed = product.cli("wait", "list", "--execution", ids[0]).stdout
    assert re.search(rf"{ids[0]} +{ids[1]} +waiting +all +0 of 1", listed)
    cancelled = product.cli("wait", "cancel", *ids).stdout
    assert cancelled == f"{ids[0]}:{ids[1]} is cancelled.\n"
    assert product.cli("wait", "list", "--execution", new_id()).stdout == "No wait states.\n"


def test_listing_page_by_page(product: Product) -> None:
    execution = f"e-{new_id()[:8]}"
    made = {
        product.register(executionId=execution, nodeId=f"n{i}")["correlationId"] for i in range(3)
    }
    first = read(product.cli("wait", "list", "--execution", execution, "--limit", "2", "--json"))
    rest = read(
        product.cli(
            "wait", "list", "--execution", execution, "--cursor", first["nextCursor"], "--json"
        )
    )
    items = first["items"] + rest["items"]
    assert {item["correlationId"] for item in items} == made
    assert len(items) == 3
    told = product.cli("wait", "list", "--execution", execution, "--limit", "2").stdout
    assert f"--cursor {first['nextCursor']}" in told
    chosen = ("--status", "completed", "--strategy", "any", "--older-than", "1h")
    none = read(product.cli("wait", "list", "--execution", execution, *chosen, "--json"))
    assert none["items"] == []


def test_tail_follows_live_and_ends_with_the_wait(product: Product) -> None:
    ids = Ids.new()
    product.register(**ids.document)
    with following(product, *ids, "--json") as lines:
        assert next(lines)["type"] == "registered"
        product.callback(ids.document, {"paid": 12})
        received = next(lines)
        assert (received["event"], received["data"]) == ("api_response", {"paid": 12})
        product.event(ids.document)
        assert next(lines)["event"] == "kafka_event"
        ended = next(lines)
        assert (ended["type"], ended["status"]) == ("ended", "completed")
        assert list(lines) == []
    again = product.cli("tail", *ids)
    assert [line.split()[1] for line in again.stdout.splitlines()[:4]] == [
        "registered",
        "received",
        "received",
        "ended",
    ]


def test_tail_of_a_wait_that_did_not_complete_ends_with_1(product: Product) -> None:
    wait = product.register()
    ids = (wait["executionId"], wait["correlationId"])
    product.cli("wait", "cancel", *ids)
    done = product.cli("tail", *ids, "--json", check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout.splitlines()[-1])["status"] == "cancelled"


@contextlib.contextmanager
def following(product: Product, *arguments: str) -> Iterator[Iterator[Any]]:
    """`muster tail` while it runs: its lines as they come."""
    with subprocess.Popen(
        [sys.executable, "-m", "cli.main", "tail", *arguments],
        env=os.environ | {"MUSTER_DATA_DIR": str(product.data_dir)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        assert process.stdout is not None
        try:
            yield map(json.loads, process.stdout)
            assert process.wait() == 0
        finally:
            watchdog.cancel()
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("wait", "register", '{"apiCall": {"url": "http://x/"}, "timeut": 3}'), 1, "data.timeut"),
        (
            ("wait", "register", '{"timeout": "soon"}'),
            1,
            'data.timeout: a valid number, got "soon"',
        ),
        (("wait", "register", "{"), 2, "The argument is not JSON"),
        (("wait", "register", "[]"), 2, "Expected a JSON object"),
        (("wait", "register", "@nowhere.json"), 2, "Cannot read nowhere.json"),
        (("wait", "show", "nobody", "nothing"), 1, "Wait state nobody:nothing does not exist."),
        (("wait", "explain", "nobody", "nothing"), 1, "Wait state nobody:nothing does not exist."),
        (("wait", "cancel", "nobody", "nothing"), 1, "nobody:nothing"),
        (("wait", "show", "e", "c", "--wait", "90s"), 2, "at most 60s"),
        (("wait", "show", "e", "c", "--wait", "soon"), 2, "'soon' is not a duration"),
        (("wait", "list", "--cursor", "zzz"), 1, "cursor: the nextCursor of an earlier page"),
        (("tail", "nobody", "nothing"), 1, "Wait state nobody:nothing does not exist."),
        (("send", "e", "c", "--data", "{"), 2, "The argument is not JSON"),
        (("send", "e", "c", "--topic", "t", "--service", "s"), 2, "--topic goes neither"),
        (("send", "e", "c", "--token", "forged"), 1, "forged, broken or over"),
        (("send", "e", "c", "--service", "two words"), 1, "service: must match"),
        (("keys", "revoke", "nobody"), 1, "There is no key nobody"),
        (("keys", "create", "n", "--expires-in", "never"), 2, "'never' is not a duration"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else None,
)
def test_what_cannot_work_is_one_sentence(
    product: Product, arguments: tuple[str, ...], code: int, told: str
) -> None:
    assert told in refused(product.cli(*arguments, check=False), code)


def test_a_wait_that_is_registered_otherwise_or_has_ended_is_told(product: Product) -> None:
    ids = Ids.new()
    product.register(**ids.document)
    other = product.cli("wait", "register", CALL, *ids.options, check=False)
    assert refused(other).startswith(f"{ids[0]}:{ids[1]} is registered")
    product.callback(ids.document)
    product.event(ids.document)
    ended = product.cli("wait", "cancel", *ids, check=False)
    assert refused(ended) == "The wait has ended as completed already."


@pytest.mark.parametrize(
    "arguments", [("frobnicate",), ("wait", "list", "--limit", "0"), ("send", "only-one-id")]
)
def test_what_is_typed_wrong_ends_with_2(product: Product, arguments: tuple[str, ...]) -> None:
    done = product.cli(*arguments, check=False)
    assert done.returncode == 2
    assert "Usage: muster" in done.stderr


def test_every_command_explains_itself_with_an_example() -> None:
    overview = run_cli("--help")
    assert overview.returncode == 0
    for command in COMMANDS:
        assert re.search(rf"\b{command}\b", overview.stdout), command
    for command in ("wait", "keys", "send", "up"):
        page = run_cli(command, "--help")
        assert page.returncode == 0
        assert "Example" in page.stdout
        assert f"muster {command}" in page.stdout
    assert re.fullmatch(r"muster \d+\.\d+\.\d+\n", run_cli("--version").stdout)


# Keys


def test_a_key_from_its_creation_to_its_end(product: Product) -> None:
    made = product.cli("keys", "create", "billing", "--allow", "waits:read", "--expires-in", "1h")
    key = made.stdout.strip()
    assert re.fullmatch(r"mk_[0-9a-f]+_\S+", key)
    assert "not shown again" in made.stderr
    prefix = key.split("_")[1]
    with_key = {"MUSTER_URL": product.url, "MUSTER_KEY": key, "MUSTER_DATA_DIR": "/nowhere"}
    assert "items" in read(run_cli("wait", "list", "--json", env=with_key))

    lacking = refused(run_cli("wait", "register", CALL, env=with_key))
    assert lacking.startswith("This API key lacks the permission waits:write.")
    assert "muster keys create --allow" in lacking

    keys = {one["prefix"]: one for one in read(product.cli("keys", "list", "--json"))["items"]}
    assert keys[prefix]["name"] == "billing"
    assert keys[prefix]["permissions"] == ["waits:read"]
    assert key not in product.cli("keys", "list").stdout

    assert product.cli("keys", "revoke", prefix).stdout == f"Key {prefix} is revoked.\n"
    until(
        "the key stops",
        lambda: run_cli("wait", "list", env=with_key).returncode == 1,
        within=20,
    )
    assert "unknown, expired or revoked" in refused(run_cli("wait", "list", env=with_key))


def test_the_admin_key_is_shown_to_its_own_instance_only(product: Product) -> None:
    """Whoever names another address must name a key, too."""
    seen: list[str | None] = []

    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization"))
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with serving(Stranger) as url:
        refused(product.cli("wait", "list", "--url", url, check=False))
    assert seen == [None]


# The instance


def test_status_for_people_and_for_scripts(product: Product) -> None:
    report = read(product.cli("status", "--json", "--every", "0.2"))
    names = {actor["name"] for actor in report["actors"]}
    assert {"supervisor", "timer", "shard-0"} <= names
    assert {"hot", "pending", "flushesPerSecond"} <= set(report["totals"])
    assert set(report["rates"]["total"]) >= {"events", "flushes"}
    page = product.cli("status", "--every", "0.2").stdout
    assert product.url in page
    assert all(name in page for name in names)


def test_the_demo_tells_the_story(product: Product) -> None:
    told = read(product.cli("demo", "--fast", "--json"))
    endings = {scene["scene"]: (scene["ok"], scene["seen"]) for scene in told["scenes"]}
    assert told["ok"], endings
    assert all(ok for ok, _ in endings.values()), endings
    assert {
        "both-api-first",
        "both-kafka-first",
        "any",
        "api-only",
        "kafka-only-early",
        "custom",
        "timeout-fail",
        "timeout-continue",
        "timeout-partial",
        "contamination",
        "near-miss",
    } <= set(endings)


def test_every_setting_is_shown_with_its_source_and_no_secret(tmp_path: Path) -> None:
    env = {
        "MUSTER_PORT": "8123",
        "MUSTER_DATABASE_URL": "postgresql://muster:hidden-password@127.0.0.1/muster",
    }
    rows = {row["name"]: row for row in read(run_cli("config", "--json", env=env))}
    assert (rows["port"]["value"], rows["port"]["source"]) == ("8123", "env")
    assert (rows["shards"]["source"], rows["host"]["value"]) == ("default", "127.0.0.1")
    assert rows["database_url"]["source"] == "env"
    assert all(row["description"] for row in rows.values())
    for page in (run_cli("config", env=env), run_cli("config", "--json", env=env)):
        assert "hidden-password" not in page.stdout + page.stderr
    told = refused(run_cli("config", env={"MUSTER_PORT": "a lot"}))
    assert told.startswith("MUSTER_PORT:")
    assert refused(run_cli("up", env={"MUSTER_SHARDS": "0"})).startswith("MUSTER_SHARDS:")


def test_migrate_says_what_is_missing(product: Product) -> None:
    assert read(product.cli("migrate", "--dry-run", "--json")) == {"pending": []}
    assert product.cli("migrate", "--dry-run").stdout == "The schema is up to date.\n"
    with fresh_database(product) as dsn:
        missing = read(run_cli("migrate", "--dry-run", "--json", "--database-url", dsn))["pending"]
        assert missing
        assert missing[0].startswith("0001_")
        applied = read(run_cli("migrate", "--json", env={"MUSTER_DATABASE_URL": dsn}))["applied"]
        assert applied == missing
        again = run_cli("migrate", "--database-url", dsn)
        assert again.stdout == "The schema is up to date.\n"
        in_postgres(dsn, "insert into schema_migrations (name) values ('9999_future')")
        told = refused(run_cli("migrate", "--dry-run", "--database-url", dsn))
        assert "newer version of Muster (9999_future)" in told


def test_migrate_without_a_database_is_one_sentence(tmp_path: Path) -> None:
    env = {"MUSTER_DATA_DIR": str(tmp_path)}
    assert refused(run_cli("migrate", env=env)).startswith(f"No PostgreSQL runs on {tmp_path}")
    nobody = f"postgresql://muster@127.0.0.1:{free_port()}/muster"
    assert refused(run_cli("migrate", "--database-url", nobody)).startswith("Cannot reach")


@contextlib.contextmanager
def fresh_database(product: Product) -> Iterator[str]:
    """An empty database beside the instance's own."""
    server = embedded.running(product.data_dir)
    assert server is not None
    name = f"test_{new_id()}"
    admin = server.dsn.replace("//muster@", "//postgres@")
    in_postgres(admin, f"create database {name} owner muster")
    try:
        yield server.dsn.replace("/muster?", f"/{name}?")
    finally:
        in_postgres(admin, f"drop database {name} with (force)")


def in_postgres(dsn: str, statement: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(dsn)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(run())


# When it cannot even begin


def test_nothing_runs_here(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    env = {"MUSTER_URL": url, "MUSTER_KEY": "mk_a_b"}
    for command in (("wait", "list"), ("status",), ("demo",), ("tail", "e", "c")):
        told = refused(run_cli(*command, env=env))
        assert told.startswith(f"Muster is not running at {url}: start it with `muster up`")
    down = run_cli("down", "--data-dir", str(tmp_path))
    assert (down.returncode, down.stdout) == (0, f"Nothing runs on {tmp_path}.\n")


def test_another_program_at_the_address(tmp_path: Path) -> None:
    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: object) -> None: ...

    with serving(Stranger) as url:
        told = refused(run_cli("wait", "list", "--url", url, "--key", "mk_a_b"))
    assert told == f"{url} does not answer like Muster: another program may use it."


def test_a_wrong_key_or_address(product: Product) -> None:
    env = {"MUSTER_URL": product.url, "MUSTER_DATA_DIR": "/nowhere"}
    assert refused(run_cli("wait", "list", env=env)).startswith("An API key is needed")
    told = refused(run_cli("wait", "list", env=env | {"MUSTER_KEY": "mk_wrong_key"}))
    assert told.startswith("This API key is unknown, expired or revoked.")
    assert "--key" in told
    assert "not an address" in refused(run_cli("wait", "list", "--url", "localhost"), 2)


@pytest.mark.parametrize("detach", [False, True])
def test_a_taken_port(tmp_path: Path, detach: bool) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        flags = ["--data-dir", str(tmp_path), "--port", str(port)]
        done = run_cli("up", *flags, *(["--detach"] if detach else []))
    assert done.returncode == 1
    assert f"Port {port} on 127.0.0.1 is taken. Choose another with --port." in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "postgres").exists()


def test_a_data_folder_of_another_version(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("16\n")
    told = refused(run_cli("up", "--data-dir", str(tmp_path), "--port", str(free_port())))
    assert "holds data of PostgreSQL 16, but Muster runs PostgreSQL 18" in told


def test_a_data_folder_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "diary.txt").write_text("dear diary")
    told = refused(run_cli("up", "--data-dir", str(tmp_path), "--port", str(free_port())))
    assert "is not a PostgreSQL data folder" in told
    assert (tmp_path / "postgres" / "diary.txt").read_text() == "dear diary"


@pytest.mark.parametrize("detach", [False, True])
def test_a_data_folder_without_permission(tmp_path: Path, detach: bool) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o500)
    flags = ["--data-dir", str(folder / "data"), "--port", str(free_port())]
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "up", *flags, *(["--detach"] if detach else [])],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=_obey_permissions,  # noqa: PLW1509
    )
    told = refused(done)
    assert told.startswith(f"Cannot write to the data folder {folder}/data: permission denied.")
    assert "--data-dir" in told


def _obey_permissions() -> None:
    """Take from root what lets it write anywhere; others never had it."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


def test_a_second_instance_on_the_same_folder(product: Product) -> None:
    for detach in ((), ("--detach",)):
        flags = ("--data-dir", str(product.data_dir), "--port", str(free_port()))
        told = refused(run_cli("up", *flags, *detach))
        assert told.startswith(f"Muster already runs on {product.data_dir} (pid {product.pid}, ")
        assert "muster down --data-dir" in told
    assert product.http.get("/actuator/health").json()["status"] == "UP"


@contextlib.contextmanager
def serving(handler: Callable[..., http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    """Another program that listens on a port of its own."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
