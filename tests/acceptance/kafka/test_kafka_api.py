"""Dead letters and Kafka's state over HTTP, on an instance that has no Kafka."""

import base64
from typing import Any

import httpx
import pytest

from core.kafka.message import KafkaMessage
from tests.support.letters import (
    new_topic,
    record,
    record_for_wait,
    store_dead_letters,
    undecodable_record,
)
from tests.support.problem import assert_problem
from tests.support.product import Product

LETTERS = "/api/dead-letters"
KAFKA_ONLY: dict[str, Any] = {"kafkaEvent": {"topic": "payments"}, "timeout": 60}


def listed(product: Product, **params: Any) -> list[dict[str, Any]]:
    reply = product.http.get(LETTERS, params=params)
    assert reply.status_code == 200, reply.text
    items: list[dict[str, Any]] = reply.json()["items"]
    return items


def shown(product: Product, letter_id: int) -> dict[str, Any]:
    reply = product.http.get(f"{LETTERS}/{letter_id}")
    assert reply.status_code == 200, reply.text
    document: dict[str, Any] = reply.json()
    return document


def redriven(product: Product, letter_id: int) -> dict[str, Any]:
    reply = product.http.post(f"{LETTERS}/{letter_id}/redrive")
    assert reply.status_code == 200, reply.text
    document: dict[str, Any] = reply.json()
    return document


def redrive(product: Product, **wish: Any) -> dict[str, Any]:
    reply = product.http.post(f"{LETTERS}/redrive", json=wish)
    assert reply.status_code == 200, reply.text
    document: dict[str, Any] = reply.json()
    return document


def for_kafka(product: Product, topic: str, **more: Any) -> dict[str, Any]:
    """A wait for an event of this topic only."""
    return product.register({"kafkaEvent": {"topic": topic}, "timeout": 60, **more})


# Looking


def test_letters_are_listed_newest_first_page_by_page(product: Product) -> None:
    topic = new_topic()
    ids = store_dead_letters(product, [undecodable_record(topic) for _ in range(5)])
    first = product.http.get(LETTERS, params={"topic": topic, "limit": 3}).json()
    assert [one["letterId"] for one in first["items"]] == ids[:1:-1]
    assert "data" not in first["items"][0]
    rest = product.http.get(
        LETTERS, params={"topic": topic, "limit": 3, "cursor": first["nextCursor"]}
    ).json()
    assert [one["letterId"] for one in rest["items"]] == ids[1::-1]
    assert rest["nextCursor"] is None


def test_letters_are_found_by_part_of_their_error(product: Product) -> None:
    topic = new_topic()
    (one,) = store_dead_letters(product, [undecodable_record(topic)], error="100 % Broken_here")
    store_dead_letters(product, [undecodable_record(topic)], error="1000 broken here")
    for text in ("% broken", "BROKEN_HERE"):
        assert [x["letterId"] for x in listed(product, topic=topic, error=text)] == [one]


@pytest.mark.parametrize(
    ("value", "encoding", "data"),
    [
        (b'{"n": 12345678901234567890.10}', "json", {"n": 12345678901234567890.10}),
        (b"{", "base64", base64.b64encode(b"{").decode()),
        (b"\x00\xff", "base64", base64.b64encode(b"\x00\xff").decode()),
        (b"", "base64", ""),
        (None, "none", None),
    ],
)
def test_a_letter_is_shown_whole(
    product: Product, value: bytes | None, encoding: str, data: Any
) -> None:
    headers = (("text", "ä".encode()), ("bytes", b"\xff"))
    (letter_id,) = store_dead_letters(
        product, [record(new_topic(), value, key=b"\xfe", headers=headers)]
    )
    letter = shown(product, letter_id)
    assert (letter["dataEncoding"], letter.get("data")) == (encoding, data)
    assert (letter["key"], letter["keyEncoding"]) == (base64.b64encode(b"\xfe").decode(), "base64")
    assert letter["headers"] == [
        {"name": "text", "value": "ä", "encoding": "text"},
        {"name": "bytes", "value": base64.b64encode(b"\xff").decode(), "encoding": "base64"},
    ]
    assert (letter["attempts"], letter["error"]) == (1, "boom")


def test_json_is_shown_to_the_byte(product: Product) -> None:
    (letter_id,) = store_dead_letters(
        product, [record(new_topic(), b'{"n":12345678901234567890.10}')]
    )
    assert '{"n":12345678901234567890.10}' in product.http.get(f"{LETTERS}/{letter_id}").text


# Trying again


def test_a_letter_that_can_be_handled_now_reaches_its_wait_once(product: Product) -> None:
    topic = new_topic()
    wait = for_kafka(product, topic)
    one = record_for_wait(topic, wait)
    (letter_id,) = store_dead_letters(product, [one])
    assert redriven(product, letter_id) == {
        "letterId": letter_id,
        "result": "handled",
        "verdict": "matched",
    }
    done = product.show(wait, wait=10)
    event = done["events"]["kafka_event"]
    assert (done["status"], event["eventId"]) == ("completed", f"kafka/{topic}/0/{one.offset}")
    assert event["data"] == {"settled": True}
    again = redriven(product, letter_id)
    assert again == {"letterId": letter_id, "result": "already_handled"}
    assert listed(product, topic=topic) == []
    (kept,) = listed(product, topic=topic, redriven=True)
    assert kept["redrivenAt"]


def test_a_letter_that_was_handled_and_not_settled_counts_once(product: Product) -> None:
    """Whoever dies between the two leaves it open; the event's place in its topic tells."""
    topic = new_topic()
    wait = for_kafka(product, topic)
    one = record_for_wait(topic, wait)
    assert redriven(product, store_dead_letters(product, [one])[0])["verdict"] == "matched"
    # Buried once more, as if the settling had been lost.
    product.http.delete(f"{LETTERS}/{listed(product, topic=topic, redriven=True)[0]['letterId']}")
    assert redriven(product, store_dead_letters(product, [one])[0])["result"] == "handled"
    log = product.http.get(f"/api/wait-states/{wait['executionId']}/{wait['correlationId']}/log")
    received = [line for line in log.json()["items"] if line["type"] == "received"]
    assert len(received) == 1


def test_a_letter_that_fails_again_counts_its_attempts(product: Product) -> None:
    (letter_id,) = store_dead_letters(product, [undecodable_record(new_topic())])
    for attempts in (2, 3):
        reply = redriven(product, letter_id)
        assert reply["result"] == "failed"
        assert "declared as JSON" in reply["error"]
        letter = shown(product, letter_id)
        assert (letter["attempts"], letter["error"]) == (attempts, reply["error"])


def test_an_event_without_ids_goes_to_the_inbox(product: Product) -> None:
    topic = new_topic()
    (letter_id,) = store_dead_letters(product, [record(topic, b'{"a":1}')])
    assert redriven(product, letter_id)["verdict"] == "rejected"
    inbox = product.http.get("/api/inbox", params={"reason": "missing_id", "limit": 500}).json()
    assert [one["label"] for one in inbox["items"]].count(topic) == 1


def test_many_are_tried_in_bounded_calls_and_nothing_twice(product: Product) -> None:
    topic = new_topic()
    waits = [for_kafka(product, topic) for _ in range(5)]
    good = [record_for_wait(topic, wait) for wait in waits]
    bad = [undecodable_record(topic) for _ in range(3)]
    mixed: list[KafkaMessage] = [
        good[0],
        bad[0],
        good[1],
        bad[1],
        good[2],
        bad[2],
        good[3],
        good[4],
    ]
    ids = store_dead_letters(product, mixed)
    cursor, rounds = None, []
    while True:
        reply = redrive(product, topic=topic, limit=3, cursor=cursor)
        rounds.append((reply["handled"], reply["failed"], reply["remaining"]))
        cursor = reply["nextCursor"]
        if cursor is None:
            break
    assert rounds == [(2, 1, 5), (1, 2, 2), (2, 0, 0)]
    assert [product.show(wait, wait=10)["status"] for wait in waits] == ["completed"] * 5
    assert [one["letterId"] for one in listed(product, topic=topic)] == [ids[5], ids[3], ids[1]]


def test_the_failed_are_told_with_place_and_error(product: Product) -> None:
    topic = new_topic()
    one = undecodable_record(topic)
    (letter_id,) = store_dead_letters(product, [one], error=f"odd {topic}")
    reply = redrive(product, error=f"ODD {topic}")
    (failure,) = reply["failures"]
    place = {"letterId": letter_id, "topic": topic, "partition": 0, "offset": one.offset}
    assert {name: failure[name] for name in place} == place
    assert "declared as JSON" in failure["error"]
    assert (reply["handled"], reply["failed"], reply["verdicts"]) == (0, 1, {})


def test_ids_are_tried_and_unknown_ones_are_told(product: Product) -> None:
    topic = new_topic()
    wait = for_kafka(product, topic)
    ids = store_dead_letters(
        product,
        [record_for_wait(topic, wait), undecodable_record(topic), undecodable_record(topic)],
    )
    reply = redrive(product, ids=[999_999_999, *ids[:2], ids[0]], limit=2)
    assert (reply["handled"], reply["failed"], reply["remaining"]) == (1, 1, 1)
    assert reply["verdicts"] == {"matched": 1}
    rest = redrive(product, ids=[999_999_999, *ids[:2]], limit=2, cursor=reply["nextCursor"])
    assert (rest["handled"], rest["failed"], rest["unknown"]) == (0, 0, [999_999_999])
    assert rest["nextCursor"] is None
    again = redrive(product, ids=[ids[0]])
    assert (again["handled"], again["alreadyHandled"]) == (0, 1)
    assert shown(product, ids[2])["attempts"] == 1


def test_all_means_all_of_this_tenant(product: Product, stranger: Product) -> None:
    topic = new_topic()
    store_dead_letters(product, [undecodable_record(topic)])
    assert redrive(stranger, all=True)["failed"] == 0
    assert redrive(product, topic=topic, limit=500)["failed"] == 1


# Forgetting


def test_a_letter_is_forgotten(product: Product) -> None:
    (letter_id,) = store_dead_letters(product, [undecodable_record(new_topic())])
    assert product.http.delete(f"{LETTERS}/{letter_id}").status_code == 204
    for method, rest in (("GET", ""), ("DELETE", ""), ("POST", "/redrive")):
        reply = product.http.request(method, f"{LETTERS}/{letter_id}{rest}")
        assert_problem(reply, 404, "not_found")


# What cannot be right


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"all": False},
        {"limit": 10},
        {"ids": []},
        {"ids": [0]},
        {"ids": ["1"]},
        {"ids": [2**63]},
        {"ids": list(range(1, 502))},
        {"ids": [1], "topic": "x"},
        {"topic": "x", "all": True},
        {"topic": "a b"},
        {"topic": ""},
        {"error": ""},
        {"error": "\u0000"},
        {"error": "x" * 201},
        {"all": True, "limit": 0},
        {"all": True, "limit": 501},
        {"all": True, "cursor": "soon"},
        {"all": True, "since": 1},
        {"all": "true"},
        [],
    ],
    ids=str,
)
def test_a_redrive_that_says_nothing_right_is_422(product: Product, body: Any) -> None:
    assert_problem(product.http.post(f"{LETTERS}/redrive", json=body), 422, "invalid")


@pytest.mark.parametrize(
    "params",
    [
        {"topic": "a b"},
        {"error": "\x00"},
        {"redriven": "perhaps"},
        {"limit": 0},
        {"limit": 501},
        {"cursor": "x"},
        {"since": 1},
    ],
    ids=str,
)
def test_a_listing_that_asks_nothing_right_is_422(product: Product, params: Any) -> None:
    assert_problem(product.http.get(LETTERS, params=params), 422, "invalid")


@pytest.mark.parametrize("letter_id", ["0", str(2**63)])
def test_an_id_that_cannot_be_is_422(product: Product, letter_id: str) -> None:
    assert_problem(product.http.get(f"{LETTERS}/{letter_id}"), 422, "invalid")


@pytest.mark.parametrize("letter_id", ["-1", "x", "1.0", "9" * 20, "9" * 5_000])
def test_what_is_no_number_is_no_letter(product: Product, letter_id: str) -> None:
    assert_problem(product.http.get(f"{LETTERS}/{letter_id}"), 404, "not_found")


def test_redrive_is_no_letter(product: Product) -> None:
    reply = product.http.get(f"{LETTERS}/redrive")
    assert_problem(reply, 405, "method_not_allowed")
    assert reply.headers["Allow"] == "POST"


# Kafka's state


def test_without_kafka_the_instance_says_so(product: Product, stranger: Product) -> None:
    before = product.http.get("/api/kafka").json()
    assert before["configured"] is False
    store_dead_letters(product, [undecodable_record(new_topic())])
    after = product.http.get("/api/kafka").json()
    assert after == {"configured": False, "deadLetters": before["deadLetters"] + 1}
    assert stranger.http.get("/api/kafka").json()["deadLetters"] == 0


def test_without_kafka_health_does_not_mention_it(product: Product) -> None:
    health = httpx.get(f"{product.url}/actuator/health", trust_env=False).json()
    assert "kafka" not in health["components"]
    assert health["status"] == "UP"


def test_verdicts_are_counted_by_path(product: Product) -> None:
    wait = product.register()
    product.callback(wait)
    product.event(wait)
    page = product.http.get("/metrics").text
    paths = {'path="api",', 'path="http",'}
    lines = [line for line in page.splitlines() if line.startswith("muster_arrivals_total{")]
    assert all(any(path in line for line in lines) for path in paths), lines
    assert "muster_kafka_" not in page
