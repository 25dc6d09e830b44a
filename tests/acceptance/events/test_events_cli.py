"""`muster events`, `event-types` and `subscriptions` as people and scripts use them."""

import json
import re
from pathlib import Path

from tests.support.product import new_id
from tests.support.shop import CliTenant, is_verified

TYPE = "shop:orders:order:created"
SCHEMA = {"type": "object", "required": ["order"], "properties": {"order": {"type": "integer"}}}


def test_from_a_type_to_a_signed_delivery(shop: CliTenant, tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_text(json.dumps(SCHEMA))
    assert shop.run("event-types", "create", TYPE).stdout == f"Event type {TYPE} is created.\n"
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
    assert wrong.startswith(f"Data does not match the schema of {TYPE} 1.0: data.order: ")
    assert wrong.count("data.order") == 1
    first = shop.read("events", "send", TYPE, "-d", '{"order": 18}', "--dedup", "o18")
    again = shop.run("events", "send", TYPE, "-d", '{"order": 18}', "--dedup", "o18").stdout
    assert again.startswith(f"{first['event']['id']}  duplicate")

    shown = shop.run("events", "show", event_id).stdout
    assert '"order": 17' in shown
    assert re.search(r"billing:customer-4 +(COMPLETED|IN_PROGRESS|QUEUED)", shown)
    listed = shop.read("events", "list", "--type", "shop:*:*:*", "--since", "10m")
    assert {first["event"]["id"], event_id} == {one["id"] for one in listed["items"]}


def test_events_are_found_by_what_they_carry(shop: CliTenant) -> None:
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
    assert told == "There is no event 0PJ3F6SK81VB8: see `muster events list`."


def test_an_event_reaches_its_wait(shop: CliTenant) -> None:
    wait = {"kafkaEvent": {"topic": "shop:pay:payment:made"}, "timeout": 60}
    ids = shop.read("wait", "register", json.dumps(wait))
    where = ("--execution", ids["executionId"], "--correlation", ids["correlationId"])
    told = shop.run("events", "send", "shop:pay:payment:made", "-d", '{"paid": true}', *where)
    assert re.search(r"^wait: matched", told.stdout, re.MULTILINE), told.stdout
    shown = shop.read("wait", "show", ids["executionId"], ids["correlationId"])
    assert shown["status"] == "completed"


def test_the_life_of_an_event_type(shop: CliTenant, tmp_path: Path) -> None:
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
    assert early == (
        "The event type has versions that are not DEPRECATED: deprecate them, then archive it."
    )
    assert shop.run("event-types", "deprecate", code, "1.0").stdout.endswith("deprecated.\n")
    assert shop.run("event-types", "archive", code).stdout.endswith("is archived.\n")
    file.write_text("message {")
    broken = shop.refused("event-types", "add-version", TYPE, "9.0", str(file))
    assert "schema" in broken.lower()
    assert (
        shop.refused("event-types", "show", "shop:no:such:type")
        == "There is no event type shop:no:such:type: see `muster event-types list`."
    )


def test_the_life_of_a_subscription(shop: CliTenant) -> None:
    target, code = shop.receiver.place(), f"audit-{new_id()[:6]}"
    kind = f"shop:audit:{code}:seen"
    words = ("-t", f"shop:*:{code}:*", "--mode", "block_on_error", "--bearer", "hush")
    made = shop.read("subscriptions", "create", code, target.url, *words, "--filter", "data.n > 1")
    assert (made["mode"], made["filter"]) == ("BLOCK_ON_ERROR", "data.n > 1")
    assert "hush" not in shop.run("subscriptions", "show", code).stdout
    assert shop.run("events", "send", kind, "-d", '{"n": 1}').stdout.endswith(
        "no subscription matches\n"
    )
    assert shop.run("subscriptions", "pause", code).stdout == f"Subscription {code} is paused.\n"
    assert code in shop.run("subscriptions", "list", "--status", "paused").stdout
    assert shop.run("events", "send", kind, "-d", '{"n": 2}').stdout.endswith(
        "no subscription matches\n"
    )
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


def test_a_subscription_that_cannot_be(shop: CliTenant) -> None:
    def create(*words: str, url: str = "http://127.0.0.1:9/in") -> str:
        code = f"odd-{new_id()[:6]}"
        return shop.refused("subscriptions", "create", code, url, *words)

    assert "10.1.2.3" in create("-t", TYPE, url="http://10.1.2.3/in")
    assert "filter" in create("-t", TYPE, "--filter", "data.(")
    assert "pool" in create("-t", TYPE, "--pool", "no-such-pool").lower()
    assert "four segments" in create("-t", "shop:*")
