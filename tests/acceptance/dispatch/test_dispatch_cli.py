"""`muster pools`, `jobs`, `groups`, `warnings`, `breakers`, `demo dispatch` as people use them."""

import json
import os
import re
import signal
import subprocess
import sys
from typing import Any

from tests.support.product import new_id, until
from tests.support.receiver import Answer, Delivery
from tests.support.shop import CliTenant, is_verified

# Pools


def test_the_life_of_a_pool(shop: CliTenant) -> None:
    code = f"pool-{new_id()[:6]}"
    made = shop.run("pools", "put", code, "--rate", "6000", "--concurrency", "7").stdout
    assert made == f"Pool {code}: 6,000 per minute, 7 at once.\n"
    assert shop.read("pools", "put", code, "--rate", "none")["rateLimit"] is None
    assert re.search(rf"{code} .*ACTIVE +no limit +7 +yours", shop.run("pools", "list").stdout)
    assert shop.run("pools", "suspend", code).stdout == f"Pool {code} is suspended.\n"
    target = shop.receiver.place()
    job = shop.post(target, "--pool", code)
    assert shop.refused("pools", "archive", code).startswith("Active subscriptions or waiting")
    assert shop.run("pools", "activate", code).stdout == f"Pool {code} is active.\n"
    shop.becomes(job, "COMPLETED")

    def delivered() -> bool:
        (stats,) = shop.read("pools", "stats", code)["items"]
        return bool(stats["totalSucceeded"] == 1)

    until("the pool has counted it", delivered)
    assert re.search(rf"{code} +ACTIVE +0 of 7", shop.run("pools", "stats", code).stdout)
    assert shop.run("pools", "archive", code).stdout == f"Pool {code} is archived.\n"
    assert re.search(r"status +ARCHIVED", shop.run("pools", "show", code).stdout)
    everybodys = shop.refused("pools", "put", "default", "--rate", "1")
    assert everybodys == "This dispatch pool is the anchor's: others can use but not change it."
    for words in (("show",), ("suspend",), ("stats",)):
        told = shop.refused("pools", *words, "no-such")
        assert told == "There is no pool no-such: see `muster pools list`."


def test_pools_are_watched(shop: CliTenant) -> None:
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


def test_a_job_that_is_posted_is_signed_and_shown(shop: CliTenant) -> None:
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
    assert shop.run("jobs", "resend", job_id).stdout == (
        f"Job {job_id} is queued to be delivered once more.\n"
    )
    again = target.gets(2)[1]
    assert again.headers["webhook-id"] == delivery.headers["webhook-id"]
    old = shop.run("jobs", "secret", "--rotate").stderr
    assert secret in old


def test_a_blocked_group_is_looked_at_parked_skipped_and_resumed(shop: CliTenant) -> None:
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
    assert parked == f"Group {group} is parked: parked, 3 to deliver\n"
    assert "disputed" in shop.run("groups", "show", group).stdout

    skipped = shop.read("groups", "skip", group, "--job", jobs[0])
    assert skipped["state"] == "parked", "to skip is not to set free"
    shop.run("groups", "resume", group)
    shop.becomes(jobs[2], "ERROR")
    poisoned.clear()
    assert shop.run("groups", "resume", group).stdout.startswith(f"Group {group} continues")
    shop.becomes(jobs[3], "COMPLETED")
    assert [one.document["n"] for one in target.deliveries] == [1, 2, 3, 3, 4]
    done = f"Group {group} has no job to deliver and none that failed: see `muster groups list`."
    assert shop.refused("groups", "show", group) == done


def test_failed_jobs_are_put_right_one_by_one_and_many_at_once(shop: CliTenant) -> None:
    source = f"s-{new_id()[:8]}"
    target = shop.receiver.place(400)
    jobs = [shop.post(target, "--source", source) for _ in range(4)]
    for job in jobs:
        shop.becomes(job, "ERROR")
    listing = ("--status", "error", "--source", source)
    failed = shop.read("jobs", "list", *listing)["items"]
    assert [one["id"] for one in failed] == jobs[::-1]
    assert shop.run("jobs", "complete", jobs[0]).stdout.endswith("marked as completed: COMPLETED\n")
    assert shop.run("jobs", "ignore", jobs[1]).stdout.endswith("ignored: ERROR (ignored)\n")
    left = shop.run("jobs", "complete", jobs[0], jobs[1], check=False)
    assert left.returncode == 1
    assert "it has not failed" in left.stdout
    assert jobs[1] in shop.run("jobs", "list", "--ignored", "--source", source).stdout

    dry = shop.read("jobs", "recover", "--since", "10m", "--dry-run")
    assert {jobs[2], jobs[3]} <= {one["id"] for one in dry["items"]}
    assert not {jobs[0], jobs[1]} & {one["id"] for one in dry["items"]}
    unasked = shop.refused("jobs", "recover", "--since", "10m", code=2)
    assert unasked.startswith("Deliver ")
    assert unasked.endswith("again? Give --yes to confirm: there is no terminal to ask on.")
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
    unknown = shop.refused("jobs", "show", "0PJ3F6SK81VB8")
    assert unknown == "There is no job 0PJ3F6SK81VB8: see `muster jobs list`."


def _open(shop: CliTenant, source: str) -> list[Any]:
    words = ("--status", "queued", "--status", "pending", "--status", "in_progress")
    items: list[Any] = shop.read("jobs", "list", "--source", source, *words)["items"]
    return items


# What somebody should look at


def test_warnings_are_seen_and_targets_tried_again(shop: CliTenant) -> None:
    target = shop.receiver.place(501)
    shop.becomes(shop.post(target), "ERROR")
    (warning,) = until(
        "there is a warning",
        lambda: [w for w in shop.read("warnings", "list")["items"] if "501" in w["message"]],
    )
    assert "501" in shop.run("warnings", "list").stdout
    assert shop.run("warnings", "ack", warning["id"]).stdout == "1 warning acknowledged.\n"
    assert warning["id"] not in [one["id"] for one in shop.read("warnings", "list")["items"]]
    severity = warning["severity"].lower()
    everything = shop.read("warnings", "list", "--severity", severity)["items"]
    assert next(one for one in everything if one["id"] == warning["id"])["acknowledged"]
    assert shop.refused("warnings", "ack", "999999999") == "Warning 999999999 does not exist."

    assert re.search(rf"{shop.receiver.url} +default +CLOSED", shop.run("breakers", "list").stdout)
    reset = shop.run("breakers", "reset", target.url).stdout
    assert reset == "1 breaker reset.\n"
    unknown = shop.refused("breakers", "reset", "http://127.0.0.1:9/nobody")
    assert unknown.endswith("in the last hour: see `muster breakers list`.")


# The demo


def belongings(shop: CliTenant) -> list[list[str]]:
    """The codes of subscriptions, event types and pools."""
    found = (
        shop.read("subscriptions", "list")["items"],
        shop.read("event-types", "list")["items"],
        shop.read("pools", "list", "--status", "active")["items"],
    )
    return [[one["code"] for one in each] for each in found]


def test_the_demo_tells_the_story_and_leaves_nothing_behind(shop: CliTenant) -> None:
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


def test_the_demo_that_is_stopped_leaves_nothing_behind(shop: CliTenant) -> None:
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
