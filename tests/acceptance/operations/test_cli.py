"""The `muster` command as people and scripts use it: what it prints, and how it ends."""

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg

from host.postgres import embedded
from tests.support.commands import WaitIds, read, refused
from tests.support.product import BOTH, Product, free_port, new_id, run_cli, until

CALL = json.dumps({"apiCall": BOTH["apiCall"], "timeout": 60})
COMMANDS = (
    "up",
    "down",
    "status",
    "demo",
    "wait",
    "send",
    "tail",
    "kafka",
    "keys",
    "migrate",
    "config",
)


# Waits


def test_a_wait_from_registration_to_result(product: Product, tmp_path: Path) -> None:
    ids = WaitIds.new()
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
    assert story["summary"].startswith("waiting: 1 of 2 events are here, ")

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
    ids = WaitIds.new()
    registered = product.cli("wait", "register", CALL, *ids.options).stdout
    url = registered.splitlines()[-1]
    assert re.fullmatch(re.escape(product.url) + r"/api/internal/callbacks/\S+\?token=\S+", url)
    shown = product.cli("wait", "show", *ids).stdout
    assert re.search(r"status +waiting", shown)
    assert re.search(r"api_response +pending", shown)
    listed = product.cli("wait", "list", "--execution", ids[0]).stdout
    assert re.search(rf"{ids[0]} +{ids[1]} +waiting +all +0 of 1", listed)
    cancelled = product.cli("wait", "cancel", *ids).stdout
    assert cancelled == f"Wait state {ids[0]}:{ids[1]} is cancelled.\n"
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
    ids = WaitIds.new()
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

    assert (
        product.cli("keys", "revoke", prefix).stdout
        == f"Key {prefix} is revoked, with all keys that it created.\n"
    )
    until(
        "the key stops",
        lambda: run_cli("wait", "list", env=with_key).returncode == 1,
        within=20,
    )
    assert "unknown, expired or revoked" in refused(run_cli("wait", "list", env=with_key))


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
        assert told.startswith("The database is at 9999, which is too new for this version")


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
