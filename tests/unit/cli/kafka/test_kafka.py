"""`muster kafka`: from the words typed to the requests sent, the output and the exit code."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.kafka.broker import find_broker
from cli.kafka.produce import ProduceOptions, ProducerMessage, sent_document, sent_sentence
from cli.shell.errors import CommandError, InputError
from core.shared.errors import InvalidError
from tests.support.command_line import FakeMuster

KAFKA: dict[str, Any] = {
    "configured": True,
    "connected": False,
    "bootstrap": "127.0.0.1:9092",
    "securityProtocol": "PLAINTEXT",
    "group": "muster",
    "clientId": "muster",
    "tenant": "default",
    "completionTopic": "muster.correlation.completed",
    "topics": [
        {"topic": "orders", "state": "followed", "partitions": 2, "lag": 1204, "deadLetters": 3},
        {"topic": "later", "state": "missing", "partitions": 0, "lag": 0, "deadLetters": 0},
    ],
    "partitions": [
        {"topic": "orders", "partition": 0, "stored": 8, "end": 1212, "lag": 1204, "actor": "k-0"},
        {"topic": "orders", "partition": 1, "stored": 4, "actor": "k-0"},
    ],
    "ingest": [
        {
            "name": "kafka-ingest-0",
            "alive": True,
            "connected": False,
            "error": "KafkaConnectionError: gone",
            "restarts": 2,
            "partitions": 2,
            "records": 5100,
        }
    ],
    "relay": {
        "name": "kafka-relay",
        "connected": True,
        "published": 7,
        "backlog": 2,
        "oldestSeconds": 65.0,
        "heldTopics": 1,
        "refused": 0,
    },
    "deadLetters": 3,
}
LETTER: dict[str, Any] = {
    "letterId": 7,
    "topic": "orders",
    "partition": 0,
    "offset": 12,
    "error": "declared as JSON, but it is not",
    "attempts": 2,
    "size": 1,
    "failedAt": "2030-01-01T00:00:00Z",
    "key": "/w==",
    "keyEncoding": "base64",
    "headers": [{"name": "content-type", "value": "application/json", "encoding": "text"}],
    "data": "ew==",
    "dataEncoding": "base64",
}
LIST, ONE, REDRIVE = "/api/dead-letters", "/api/dead-letters/7", "/api/dead-letters/redrive"


def reply(**numbers: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {
        "handled": 0,
        "failed": 0,
        "alreadyHandled": 0,
        "remaining": 0,
        "nextCursor": None,
        "verdicts": {},
        "failures": [],
        "unknown": [],
    }
    return nothing | numbers


# Looking


def test_status_tells_brokers_topics_consumers_and_troubles(muster: FakeMuster) -> None:
    muster.answers["GET /api/kafka"] = KAFKA
    run = muster.run("kafka", "status")
    assert run.exit_code == 0, run.output
    for told in (
        "127.0.0.1:9092",
        "kafka-ingest-0: KafkaConnectionError: gone",
        "1,204 messages on 2 partitions",
        "7, 2 waiting (the oldest for 1m 5s), 1 topics held back",
        "missing",
        "5,100",
    ):
        assert told in run.stdout, told


def test_status_is_json_for_scripts(muster: FakeMuster) -> None:
    muster.answers["GET /api/kafka"] = KAFKA
    assert json.loads(muster.run("kafka", "status", "--json").stdout) == KAFKA
    partitions = json.loads(muster.run("kafka", "lag", "--json").stdout)
    assert partitions == KAFKA["partitions"]


def test_lag_has_a_line_for_each_partition(muster: FakeMuster) -> None:
    muster.answers["GET /api/kafka"] = KAFKA
    lines = [line.split() for line in muster.run("kafka", "lag").stdout.splitlines()]
    assert ["orders", "0", "8", "1,212", "1,204", "k-0"] in lines
    assert ["orders", "1", "4", "k-0"] in lines


@pytest.mark.parametrize("command", ["status", "lag"])
def test_an_instance_without_kafka_says_so(command: str, muster: FakeMuster) -> None:
    muster.answers["GET /api/kafka"] = {"configured": False, "deadLetters": 2}
    run = muster.run("kafka", command)
    assert run.exit_code == 0
    assert "not configured" in run.stdout
    assert "2 dead letters" in " ".join(run.stdout.split())


def test_dead_letters_are_listed_by_their_filters(muster: FakeMuster) -> None:
    muster.answers[f"GET {LIST}"] = {"items": [LETTER], "nextCursor": "7"}
    words = ["--topic", "orders", "--error", "JSON", "--redriven", "--limit", "1"]
    run = muster.run("kafka", "dead-letters", "list", *words)
    assert run.exit_code == 0, run.output
    assert dict(muster.requests[0].url.params) == {
        "topic": "orders",
        "error": "JSON",
        "redriven": "true",
        "limit": "1",
    }
    assert "0/12" in run.stdout
    assert "--cursor 7" in run.stdout
    muster.answers[f"GET {LIST}"] = {"items": [], "nextCursor": None}
    assert muster.run("kafka", "dead-letters", "list").stdout == "No dead letters.\n"


@pytest.mark.parametrize(
    ("data", "encoding", "told"),
    [
        ("ew==", "base64", "ew==  (base64: not JSON)"),
        ({"ü": 1}, "json", '"ü": 1'),
        (None, "none", "A tombstone"),
    ],
)
def test_a_dead_letter_is_shown_whole(
    data: Any, encoding: str, told: str, muster: FakeMuster
) -> None:
    muster.answers[f"GET {ONE}"] = LETTER | {"data": data, "dataEncoding": encoding}
    shown = muster.run("kafka", "dead-letters", "show", "7").stdout
    assert told in shown
    assert "content-type: application/json" in shown
    assert "/w==  (base64)" in shown


def test_a_dead_letter_is_deleted(muster: FakeMuster) -> None:
    muster.answers[f"DELETE {ONE}"] = httpx.Response(204)
    run = muster.run("kafka", "dead-letters", "delete", "7")
    assert run.stdout == "Dead letter 7 is deleted.\n"


# Trying again


def test_redrive_goes_on_until_nothing_remains(muster: FakeMuster) -> None:
    muster.answers[f"POST {REDRIVE}"] = [
        reply(handled=2, remaining=3, nextCursor="5", verdicts={"matched": 2}),
        reply(handled=2, remaining=1, nextCursor="9", verdicts={"matched": 1, "late": 1}),
        reply(alreadyHandled=1),
    ]
    run = muster.run("kafka", "redrive", "--topic", "orders", "--batch", "2")
    assert run.exit_code == 0, run.output
    sent = [json.loads(request.content) for request in muster.requests]
    assert [one.pop("cursor", None) for one in sent] == [None, "5", "9"]
    assert sent == [{"topic": "orders", "limit": 2}] * 3
    summary = "4 handled (matched 3, late 1), 0 failed again, 1 handled before\n"
    assert run.stdout == summary


def test_redrive_tells_what_failed_again_and_ends_with_1(muster: FakeMuster) -> None:
    failure = {"letterId": 7, "topic": "orders", "partition": 0, "offset": 12, "error": "boom"}
    muster.answers[f"POST {REDRIVE}"] = reply(failed=1, failures=[failure], unknown=[9])
    run = muster.run("kafka", "redrive", "9", "7", "7")
    assert run.exit_code == 1
    assert json.loads(muster.requests[0].content)["ids"] == [7, 9]
    assert "0 handled, 1 failed again" in run.stdout
    assert "boom" in run.stdout
    assert run.stderr == "There is no dead letter 9.\n"


def test_redrive_is_json_for_scripts(muster: FakeMuster) -> None:
    muster.answers[f"POST {REDRIVE}"] = reply(handled=3, verdicts={"matched": 3})
    run = muster.run("kafka", "redrive", "--all", "--json")
    assert json.loads(muster.requests[0].content) == {"all": True, "limit": 100}
    assert json.loads(run.stdout)["handled"] == 3


def test_many_ids_go_in_several_requests(muster: FakeMuster) -> None:
    muster.answers[f"POST {REDRIVE}"] = reply(handled=1)
    run = muster.run("kafka", "redrive", *map(str, range(1, 702)))
    assert run.exit_code == 0
    assert [len(json.loads(r.content)["ids"]) for r in muster.requests] == [500, 201]


@pytest.mark.parametrize(
    "words", [[], ["7", "--all"], ["--all", "--topic", "x"], ["7", "--error", "x"]]
)
def test_redrive_wants_to_know_which(words: list[str], muster: FakeMuster) -> None:
    run = muster.run("kafka", "redrive", *words)
    assert run.exit_code == 2
    assert "Name dead letters" in run.stderr
    assert not muster.requests


# Sending


def test_of_several_records_each_has_its_number() -> None:
    message = ProducerMessage(b'{"c": "c-{n}"}', b"k{n}", (("X-Id", b"{n}"),))
    assert list(message.copies(2)) == [
        ProducerMessage(b'{"c": "c-1"}', b"k1", (("X-Id", b"1"),)),
        ProducerMessage(b'{"c": "c-2"}', b"k2", (("X-Id", b"2"),)),
    ]
    assert list(message.copies(1)) == [message]
    assert list(ProducerMessage(b"1").copies(2)) == [ProducerMessage(b"1")] * 2


def test_what_is_typed_becomes_a_record(tmp_path: Path) -> None:
    draft = ProduceOptions(data='{"a": 1.10}', key="k", header=["A=1", "B=x=y", "C="])
    assert draft.message() == ProducerMessage(
        b'{"a": 1.10}', b"k", (("A", b"1"), ("B", b"x=y"), ("C", b""))
    )
    assert ProduceOptions().message() == ProducerMessage(b"{}")
    file = tmp_path / "bytes"
    file.write_bytes(b"\x00\xff")
    assert ProduceOptions(file=file).message() == ProducerMessage(b"\x00\xff")


@pytest.mark.parametrize(
    "draft",
    [
        ProduceOptions(data="{"),
        ProduceOptions(data="{}", file=Path("/nowhere")),
        ProduceOptions(file=Path("/nowhere")),
        ProduceOptions(header=["novalue"]),
        ProduceOptions(header=["=x"]),
    ],
    ids=str,
)
def test_what_cannot_be_sent_is_said_before_anything_is(draft: ProduceOptions) -> None:
    with pytest.raises(InputError):
        draft.message()


def test_a_topic_that_cannot_be_is_refused(muster: FakeMuster) -> None:
    run = muster.run("kafka", "produce", "a b")
    assert run.exit_code == 2
    assert "is not a topic" in run.stderr


def test_it_says_where_the_records_are() -> None:
    assert sent_sentence("t", {2: (7, 7)}, 1, 0.1) == "Sent to t, partition 2, offset 7."
    many = sent_sentence("t", {1: (4, 9), 0: (0, 3)}, 10, 2.0)
    assert "Sent 10 messages to t (2.0 s, 5 a second)" in many
    assert "0: 0 to 3, 1: 4 to 9" in many
    document = sent_document("t", {1: (4, 9)}, 6, 2.0)
    assert document["partitions"] == [{"partition": 1, "first": 4, "last": 9}]


# The broker


@pytest.fixture
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # no .env of anybody's
    for name in ("BOOTSTRAP", "SECURITY_PROTOCOL", "SASL_USERNAME", "SASL_PASSWORD"):
        monkeypatch.delenv(f"MUSTER_KAFKA_{name}", raising=False)


def write_instance(data_dir: Path, kafka: dict[str, Any] | None) -> None:
    instance = {
        "host": {"pid": 1, "born": "then"},
        "stage": "up",
        "url": "http://127.0.0.1:8000",
        "port": 8000,
        "started_at": "2030-01-01T00:00:00Z",
        "data_dir": str(data_dir),
        "run_dir": "/nowhere",
        "kafka": kafka,
    }
    (data_dir / "instance.json").write_text(json.dumps(instance))


@pytest.mark.usefixtures("_no_variables")
def test_the_one_that_is_given_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_instance(tmp_path, {"bootstrap": "local:3"})
    assert find_broker(None, tmp_path).bootstrap == "local:3"
    monkeypatch.setenv("MUSTER_KAFKA_BOOTSTRAP", "variable:2")
    assert find_broker(None, tmp_path).bootstrap == "variable:2"
    assert find_broker("given:1", tmp_path).bootstrap == "given:1"


@pytest.mark.usefixtures("_no_variables")
def test_our_own_broker_asks_nobody_who_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    monkeypatch.setenv("MUSTER_KAFKA_SASL_USERNAME", "me")
    monkeypatch.setenv("MUSTER_KAFKA_SASL_PASSWORD", "verysecret")
    write_instance(tmp_path, {"bootstrap": "local:3", "broker": "Apache Kafka"})
    assert find_broker(None, tmp_path).security_protocol == "PLAINTEXT"
    write_instance(tmp_path, {"bootstrap": "other:3"})
    config = find_broker(None, tmp_path)
    assert (config.security_protocol, config.sasl_username) == ("SASL_PLAINTEXT", "me")
    assert "verysecret" not in repr(config)


@pytest.mark.usefixtures("_no_variables")
def test_where_none_is_known_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="--bootstrap"):
        find_broker(None, tmp_path)
    with pytest.raises(InvalidError, match="MUSTER_KAFKA_BOOTSTRAP"):
        find_broker("nonsense", tmp_path)
