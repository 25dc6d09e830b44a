"""`muster events`, `event-types`, `subscriptions`, `pools`, `jobs`, `groups`, `warnings`,
`breakers` and `muster demo dispatch` as people and scripts use them."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from tests.support.commands import read, refused
from tests.support.product import Product, new_id, run_cli, until
from tests.support.receiver import Answer, Delivery, Receiver, Target, receiving
from tests.support.tenants import another_tenant

TYPE = "shop:orders:order:created"
SCHEMA = {"type": "object", "required": ["order"], "properties": {"order": {"type": "integer"}}}


@dataclass
class Shop:
    """A tenant at its terminal, and those it delivers to."""

    product: Product
    receiver: Receiver

    @property
    def env(self) -> dict[str, str]:
        """What leads the command to this tenant."""
        return {"MUSTER_URL": self.product.url, "MUSTER_KEY": self.product.key}

    def run(self, *words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run a command."""
        done = run_cli(*words, env=self.env)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def read(self, *words: str) -> Any:
        """What a script reads."""
        return read(self.run(*words, "--json"))

    def refused(self, *words: str, code: int = 1) -> str:
        """The one sentence of a command that fails."""
        return refused(self.run(*words, check=False), code)

    def post(self, target: Target | str, *words: str) -> str:
        """Post a job; its id."""
        url = target if isinstance(target, str) else target.url
        job: dict[str, Any] = self.read("jobs", "post", "ship", url, *words)
        return str(job["id"])

    def becomes(self, job_id: str, status: str) -> dict[str, Any]:
        """Wait until a job stands so."""

        def look() -> dict[str, Any] | None:
            job: dict[str, Any] = self.product.http.get(f"/api/dispatch-jobs/{job_id}").json()
            return job if job["status"] == status else None

        found: dict[str, Any] = until(f"{job_id} is {status}", look)
        return found


@pytest.fixture(scope="module")
def shop(product: Product) -> Iterator[Shop]:
    with another_tenant(product) as tenant, receiving() as receiver:
        yield Shop(tenant, receiver)


def is_verified(delivery: Delivery, secret: str) -> bool:
    """Whether the receivers' own library believes a delivery."""
    try:
        Webhook(secret).verify(delivery.body, delivery.headers)
    except WebhookVerificationError:
        return False
    return True


# Events, their types, and those who want them


def test_from_a_type_to_a_signed_delivery(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_text(json.dumps(SCHEMA))
    assert shop.run("event-types", "create", TYPE).stdout == f"Event type {TYPE} is registered.\n"
    added = shop.run("event-types", "add-version", TYPE, "1.0", str(file), "--finalise")
    assert added.stdout == f"Version 1.0 of {TYPE} is in force.\n"
    assert re.search(
        rf"{TYPE} +Order created +CURRENT +1\.0", shop.run("event-types", "list").stdout
    )

    target = shop.receiver.place()
    made = shop.run("subscriptions", "create", "billing", target.url, "--type", TYPE)
    secret = made.stdout.strip()
    assert secret.startswith("whsec_")
    sent = shop.run("events", "send", TYPE, "-d", '{"order": 17}', "--group", "customer-4")
    event_id = sent.stdout.split()[0]
    assert sent.stdout == f"{event_id}  stored, 1 delivery\n"
    (delivery,) = target.gets(1)
    assert delivery.body == b'{"order": 17}'
    assert is_verified(delivery, secret)

    wrong = shop.refused("events", "send", TYPE, "-d", '{"order": "many"}')
    assert wrong.startswith(f"Data is not what {TYPE} 1.0 says: data.order: ")
    assert wrong.count("data.order") == 1
    first = shop.read("events", "send", TYPE, "-d", '{"order": 18}', "--dedup", "o18")
    again = shop.run("events", "send", TYPE, "-d", '{"order": 18}', "--dedup", "o18").stdout
    assert again.startswith(f"{first['event']['id']}  known")

    shown = shop.run("events", "show", event_id).stdout
    assert '"order": 17' in shown
    assert re.search(r"billing:customer-4 +(COMPLETED|IN_PROGRESS|QUEUED)", shown)
    listed = shop.read("events", "list", "--type", "shop:*:*:*", "--since", "10m")
    assert {first["event"]["id"], event_id} == {one["id"] for one in listed["items"]}


def test_events_are_found_by_what_they_carry(shop: Shop) -> None:
    mark = new_id()[:8]
    words = ("--source", "till", "--subject", f"order-{mark}", "--context", f"customer={mark}")
    shop.run("events", "send", "shop:till:sale:made", *words, "-d", "[1.10]")
    shop.run("events", "send", "shop:till:sale:made", "--context", "customer=other")
    for chosen in (("--context", f"customer={mark}"), ("--subject", f"order-{mark}")):
        (found,) = shop.read("events", "list", *chosen)["items"]
        assert (found["source"], found["dataSize"]) == ("till", 6)
    page = shop.run("events", "list", "--type", "shop:till:sale:made", "--limit", "1").stdout
    cursor = re.search(r"--cursor (\S+)", page)
    assert cursor is not None
    (older,) = shop.read("events", "list", "--limit", "1", "--cursor", cursor[1])["items"]
    assert older["subject"] == f"order-{mark}"
    told = shop.refused("events", "show", "0PJ3F6SK81VB8")
    assert told == "An event with this id does not exist."


def test_an_event_reaches_its_wait(shop: Shop) -> None:
    wait = {"kafkaEvent": {"topic": "shop:pay:payment:made"}, "timeout": 60}
    ids = shop.read("wait", "register", json.dumps(wait))
    where = ("--execution", ids["executionId"], "--correlation", ids["correlationId"])
    told = shop.run("events", "send", "shop:pay:payment:made", "-d", '{"paid": true}', *where)
    assert re.search(r"^wait: matched", told.stdout, re.MULTILINE), told.stdout
    shown = shop.read("wait", "show", ids["executionId"], ids["correlationId"])
    assert shown["status"] == "completed"


def test_the_life_of_an_event_type(shop: Shop, tmp_path: Path) -> None:
    code = f"shop:stock:item:e{new_id()[:6]}"
    file = tmp_path / "item.proto"
    file.write_text('syntax = "proto3"; message Item { string name = 1; }')
    made = shop.read("event-types", "create", code, "--validation", "warn", "--name", "Item")
    assert (made["validation"], made["name"]) == ("warn", "Item")
    told = shop.run("event-types", "add-version", code, "1.0", str(file)).stdout
    assert told.endswith("is FINALISING.\n")
    assert shop.run("event-types", "finalise", code, "1.0").stdout.endswith("is in force.\n")
    assert "PROTO" in shop.run("event-types", "show", code).stdout
    schema = shop.run("event-types", "show", code, "--schema", "1.0").stdout
    assert schema == file.read_text() + "\n"
    early = shop.refused("event-types", "archive", code)
    assert early == "An event type is archived when all versions are DEPRECATED."
    assert shop.run("event-types", "deprecate", code, "1.0").stdout.endswith("deprecated.\n")
    assert shop.run("event-types", "archive", code).stdout.endswith("is archived.\n")
    file.write_text("message {")
    broken = shop.refused("event-types", "add-version", TYPE, "9.0", str(file))
    assert "schema" in broken.lower()
    assert (
        shop.refused("event-types", "show", "shop:no:such:type") == "There is no such event type."
    )


def test_the_life_of_a_subscription(shop: Shop) -> None:
    target, code = shop.receiver.place(), f"audit-{new_id()[:6]}"
    kind = f"shop:audit:{code}:seen"
    words = ("-t", f"shop:*:{code}:*", "--mode", "block_on_error", "--bearer", "hush")
    made = shop.read("subscriptions", "create", code, target.url, *words, "--filter", "data.n > 1")
    assert (made["mode"], made["filter"]) == ("BLOCK_ON_ERROR", "data.n > 1")
    assert "hush" not in shop.run("subscriptions", "show", code).stdout
    assert shop.run("events", "send", kind, "-d", '{"n": 1}').stdout.endswith("0 deliveries\n")
    assert shop.run("subscriptions", "pause", code).stdout == f"Subscription {code} is paused.\n"
    assert code in shop.run("subscriptions", "list", "--status", "paused").stdout
    assert shop.run("events", "send", kind, "-d", '{"n": 2}').stdout.endswith("0 deliveries\n")
    shop.run("subscriptions", "resume", code)
    old = shop.run("subscriptions", "secret", code).stdout.strip()
    rotated = shop.run("subscriptions", "rotate", code, "--overlap", "1h")
    new = rotated.stdout.strip()
    assert old == made["secret"] != new
    assert old in rotated.stderr
    changed = shop.read("subscriptions", "change", code, "--envelope", "--retries", "7")
    assert (changed["dataOnly"], changed["maxRetries"]) == (False, 7)

    assert shop.run("events", "send", kind, "-d", '{"n": 3}').stdout.endswith("1 delivery\n")
    (delivery,) = target.gets(1)
    assert (delivery.document["data"], delivery.headers["authorization"]) == (
        {"n": 3},
        "Bearer hush",
    )
    for secret in (old, new):
        assert is_verified(delivery, secret)
    assert shop.run("subscriptions", "rm", code).stdout == f"Subscription {code} is removed.\n"
    gone = f"There is no subscription {code}: see `muster subscriptions list`."
    for verb in ("show", "rm", "pause", "secret", "rotate"):
        assert shop.refused("subscriptions", verb, code) == gone


def test_a_subscription_that_cannot_be(shop: Shop) -> None:
    def create(*words: str, url: str = "http://127.0.0.1:9/in") -> str:
        code = f"odd-{new_id()[:6]}"
        return shop.refused("subscriptions", "create", code, url, *words)

    assert "10.1.2.3" in create("-t", TYPE, url="http://10.1.2.3/in")
    assert "filter" in create("-t", TYPE, "--filter", "data.(")
    assert "pool" in create("-t", TYPE, "--pool", "no-such-pool").lower()
    assert "four segments" in create("-t", "shop:*")


# Pools


def test_the_life_of_a_pool(shop: Shop) -> None:
    code = f"pool-{new_id()[:6]}"
    made = shop.run("pools", "put", code, "--rate", "6000", "--concurrency", "7").stdout
    assert made == f"Pool {code}: 6,000 a minute, 7 at once.\n"
    assert shop.read("pools", "put", code, "--rate", "none")["rateLimit"] is None
    assert re.search(rf"{code} .*ACTIVE +no limit +7 +yours", shop.run("pools", "list").stdout)
    assert shop.run("pools", "suspend", code).stdout == f"Pool {code} waits.\n"
    target = shop.receiver.place()
    job = shop.post(target, "--pool", code)
    assert shop.refused("pools", "archive", code).startswith("Active subscriptions or waiting")
    assert shop.run("pools", "activate", code).stdout == f"Pool {code} delivers.\n"
    shop.becomes(job, "COMPLETED")

    def delivered() -> bool:
        (stats,) = shop.read("pools", "stats", code)["items"]
        return bool(stats["totalSucceeded"] == 1)

    until("the pool has counted it", delivered)
    assert re.search(rf"{code} +ACTIVE +0 of 7", shop.run("pools", "stats", code).stdout)
    assert shop.run("pools", "archive", code).stdout == f"Pool {code} is archived.\n"
    assert re.search(r"status +ARCHIVED", shop.run("pools", "show", code).stdout)
    everybodys = shop.refused("pools", "put", "default", "--rate", "1")
    assert everybodys == "The dispatch pool is the anchor's: it can be used, not changed."
    for words in (("show",), ("suspend",), ("stats",)):
        told = shop.refused("pools", *words, "no-such")
        assert told == "There is no pool no-such: see `muster pools list`."


def test_pools_are_watched(shop: Shop) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "cli.main", "pools", "stats", "--watch", "--json", "--every", "0.2"],
        env=os.environ | shop.env,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            looks = [json.loads(next(process.stdout)) for _ in range(2)]
            assert all(one["items"][0]["poolCode"] == "default" for one in looks)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            process.kill()


# Jobs and groups


def test_a_job_that_is_posted_is_signed_and_shown(shop: Shop) -> None:
    target = shop.receiver.place()
    secret = shop.run("jobs", "secret").stdout.strip()
    words = ("-d", '{"total": 1.10}', "--metadata", "team=a", "--idempotency-key", new_id())
    job_id = shop.post(target, *words)
    assert shop.post(target, *words) == job_id, "it is known"
    (delivery,) = target.gets(1)
    assert delivery.body == b'{"total": 1.10}'
    assert is_verified(delivery, secret)
    shop.becomes(job_id, "COMPLETED")
    shown = shop.run("jobs", "show", job_id).stdout
    for text in ("COMPLETED", "SUCCESS", "team=a", '"total": 1.1'):
        assert text in shown
    assert shop.run("jobs", "resend", job_id).stdout == f"Job {job_id} is delivered once more.\n"
    again = target.gets(2)[1]
    assert again.headers["webhook-id"] == delivery.headers["webhook-id"]
    old = shop.run("jobs", "secret", "--rotate").stderr
    assert secret in old


def test_a_blocked_group_is_looked_at_parked_skipped_and_resumed(shop: Shop) -> None:
    def decide(delivery: Delivery) -> Answer:
        return Answer(400 if delivery.document["n"] in poisoned else 200)

    poisoned = {1, 3}
    target, group = shop.receiver.place(decide), f"group/{new_id()[:6]}"
    order = ("--group", group, "--mode", "BLOCK_ON_ERROR")
    jobs = [shop.post(target, "-d", json.dumps({"n": n}), *order) for n in (1, 2, 3, 4)]
    shop.becomes(jobs[0], "ERROR")
    assert re.search(rf"{group} +default +blocked +3", shop.run("groups", "list").stdout)
    shown = shop.run("groups", "show", group).stdout
    assert re.search(rf"head +{jobs[0]}, ERROR", shown)
    assert all(job in shown for job in jobs)
    parked = shop.run("groups", "park", group, "--reason", "disputed").stdout
    assert parked == f"Group {group} is held back: parked, 3 to deliver\n"
    assert "disputed" in shop.run("groups", "show", group).stdout

    skipped = shop.read("groups", "skip", group, "--job", jobs[0])
    assert skipped["state"] == "parked", "to skip is not to set free"
    shop.run("groups", "resume", group)
    shop.becomes(jobs[2], "ERROR")
    poisoned.clear()
    assert shop.run("groups", "resume", group).stdout.startswith(f"Group {group} goes on")
    shop.becomes(jobs[3], "COMPLETED")
    assert [one.document["n"] for one in target.deliveries] == [1, 2, 3, 3, 4]
    done = f"Nothing waits in group {group}, and nothing failed: see `muster groups list`."
    assert shop.refused("groups", "show", group) == done


def test_failed_jobs_are_put_right_one_by_one_and_many_at_once(shop: Shop) -> None:
    source = f"s-{new_id()[:8]}"
    target = shop.receiver.place(400)
    jobs = [shop.post(target, "--source", source) for _ in range(4)]
    for job in jobs:
        shop.becomes(job, "ERROR")
    listing = ("--status", "error", "--source", source)
    failed = shop.read("jobs", "list", *listing)["items"]
    assert [one["id"] for one in failed] == jobs[::-1]
    assert shop.run("jobs", "complete", jobs[0]).stdout.endswith("called completed: COMPLETED\n")
    assert shop.run("jobs", "ignore", jobs[1]).stdout.endswith("put aside: ERROR (ignored)\n")
    left = shop.run("jobs", "complete", jobs[0], jobs[1], check=False)
    assert left.returncode == 1
    assert "it has not failed" in left.stdout
    assert jobs[1] in shop.run("jobs", "list", "--ignored", "--source", source).stdout

    dry = shop.read("jobs", "recover", "--since", "10m", "--dry-run")
    assert {jobs[2], jobs[3]} <= {one["id"] for one in dry["items"]}
    assert not {jobs[0], jobs[1]} & {one["id"] for one in dry["items"]}
    unasked = shop.refused("jobs", "recover", "--since", "10m", code=2)
    assert unasked.startswith("Deliver ")
    assert unasked.endswith("again? Give --yes, as nobody can be asked here.")
    requeued = shop.run("jobs", "requeue", *listing, "--yes").stdout
    assert requeued == "2 jobs queued again.\n"
    target.gets(6)
    until("both failed again", lambda: not _open(shop, source))
    target.becomes(200)
    assert " queued again.\n" in shop.run("jobs", "recover", "--since", "10m", "--yes").stdout
    for job in jobs[2:]:
        shop.becomes(job, "COMPLETED")

    held = shop.post(target, "--source", source, "--delay", "1h")
    assert shop.run("jobs", "cancel", "--source", source, "--yes").stdout == "1 job cancelled.\n"
    shop.becomes(held, "CANCELLED")
    assert "has ended already" in shop.refused("jobs", "cancel", held)
    assert shop.refused("jobs", "show", "0PJ3F6SK81VB8").startswith("Dispatch job 0PJ3F6SK81VB8")


def _open(shop: Shop, source: str) -> list[Any]:
    words = ("--status", "queued", "--status", "pending", "--status", "in_progress")
    items: list[Any] = shop.read("jobs", "list", "--source", source, *words)["items"]
    return items


# What somebody should look at


def test_warnings_are_seen_and_targets_tried_again(shop: Shop) -> None:
    target = shop.receiver.place(501)
    shop.becomes(shop.post(target), "ERROR")
    (warning,) = until(
        "there is a warning",
        lambda: [w for w in shop.read("warnings", "list")["items"] if "501" in w["message"]],
    )
    assert "501" in shop.run("warnings", "list").stdout
    assert shop.run("warnings", "ack", warning["id"]).stdout == "1 warning is seen.\n"
    assert warning["id"] not in [one["id"] for one in shop.read("warnings", "list")["items"]]
    severity = warning["severity"].lower()
    everything = shop.read("warnings", "list", "--severity", severity)["items"]
    assert next(one for one in everything if one["id"] == warning["id"])["acknowledged"]
    assert shop.refused("warnings", "ack", "999999999") == "Warning 999999999 does not exist."

    assert re.search(rf"{shop.receiver.url} +default +CLOSED", shop.run("breakers", "list").stdout)
    reset = shop.run("breakers", "reset", target.url).stdout
    assert reset == "1 target is tried again.\n"
    unknown = shop.refused("breakers", "reset", "http://127.0.0.1:9/nobody")
    assert unknown.endswith("lately: see `muster breakers list`.")


# The demo


def belongings(shop: Shop) -> list[list[str]]:
    """The codes of subscriptions, event types and pools."""
    found = (
        shop.read("subscriptions", "list")["subscriptions"],
        shop.read("event-types", "list")["items"],
        shop.read("pools", "list", "--status", "active")["pools"],
    )
    return [[one["code"] for one in each] for each in found]


def test_the_demo_tells_the_story_and_leaves_nothing_behind(shop: Shop) -> None:
    before = belongings(shop)
    told = shop.read("demo", "dispatch", "--fast")
    endings = {scene["scene"]: (scene["ok"], scene["seen"]) for scene in told["scenes"]}
    assert told["ok"], endings
    assert list(endings) == [
        "fan-out",
        "schema",
        "duplicate",
        "order",
        "skip",
        "resume",
        "busy",
        "rate",
        "rotation",
    ]
    assert told["verified"] == told["arrived"] > 40
    assert belongings(shop) == before
    again = shop.run("demo", "dispatch", "--fast").stdout
    assert "Every scene ended as expected." in again
    assert re.search(r"tracking +customer-1 +1 ✗2", again)
    assert belongings(shop) == before


def test_the_demo_that_is_stopped_leaves_nothing_behind(shop: Shop) -> None:
    before = belongings(shop)
    with subprocess.Popen(
        [sys.executable, "-m", "cli.main", "demo", "dispatch"],
        env=os.environ | shop.env | {"COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert next(line for line in process.stdout if "4/9" in line)
            process.send_signal(signal.SIGTERM)
            process.stdout.read()
            assert process.wait(60) == 128 + signal.SIGTERM
        finally:
            process.kill()
    assert belongings(shop) == before
    groups = [one["name"] for one in shop.read("groups", "list")["items"]]
    assert [name for name in groups if name.startswith("demo-")] == []
