import base64
from typing import Any

import pytest

from core.kafka.message import KafkaMessage
from serve_app.kafka.dead_letter_models import (
    DeadLetterPage,
    DeadLetterRedriven,
    DeadLetterView,
    RedriveReply,
)
from services.kafka.ingest import IngestResult
from services.kafka.redrive import RedriveBatch, RedriveRound
from storage.kafka.dead_letters import DeadLetter
from tests.unit.serve_app.container_fixtures import document_of


def record(value: bytes | None, **more: Any) -> KafkaMessage:
    return KafkaMessage(topic="orders", partition=2, offset=7, value=value, **more)


def letter(**more: Any) -> DeadLetter:
    fields: dict[str, Any] = {
        "letter_id": 5,
        "topic": "orders",
        "partition": 2,
        "offset": 7,
        "size": 3,
        "error": "boom",
        "attempts": 1,
        "failed_at": 1_700_000_000.0,
        "redriven_at": None,
    }
    return DeadLetter(**fields | more)


@pytest.mark.parametrize(
    ("value", "data", "encoding"),
    [
        (b'{"a": 1.10}', {"a": 1.1}, "json"),
        (b"null", None, "json"),
        (b"{", "ew==", "base64"),
        (b"\xff", "/w==", "base64"),
        (b"", "", "base64"),
        (None, None, "none"),
    ],
)
def test_any_bytes_fit_into_json_and_say_how(value: bytes | None, data: Any, encoding: str) -> None:
    document = document_of(DeadLetterView.of_message(letter(), record(value)))
    assert (document.get("data"), document["dataEncoding"]) == (data, encoding)


def test_json_goes_out_as_it_came() -> None:
    view = DeadLetterView.of_message(letter(), record(b'{"a": 1.10}'))
    assert b'{"a": 1.10}' in view.to_json()


def test_keys_and_headers_are_text_where_they_can_be() -> None:
    headers = (("a", "ü".encode()), ("a", b"\xff"))
    message = record(b"1", key=b"\xfe", headers=headers)
    document = document_of(DeadLetterView.of_message(letter(), message))
    assert document["headers"] == [
        {"name": "a", "value": "ü", "encoding": "text"},
        {"name": "a", "value": base64.b64encode(b"\xff").decode(), "encoding": "base64"},
    ]
    assert (document["key"], document["keyEncoding"]) == ("/g==", "base64")
    without = document_of(DeadLetterView.of_message(letter(), record(b"1")))
    assert ("key" in without, without["keyEncoding"]) == (False, "none")


def test_a_listing_tells_what_was_handled_after_all() -> None:
    letters = [letter(), letter(redriven_at=1_700_000_001.0, size=None)]
    first, second = document_of(DeadLetterPage.of_all(letters))["items"]
    assert ("redrivenAt" in first, first["size"]) == (False, 3)
    assert (second["redrivenAt"], "size" in second) == ("2023-11-14T22:13:21.000000Z", False)


def round_of(**more: Any) -> RedriveRound:
    fields: dict[str, Any] = {
        "selected": RedriveBatch(ids=(5,), reached=5, remaining=0),
        "done": IngestResult(),
        "settled": (),
        "failures": (),
    }
    return RedriveRound(**fields | more)


@pytest.mark.parametrize(
    ("done", "result"),
    [
        (
            round_of(settled=(5,), done=IngestResult(verdicts={"late": 1})),
            ("handled", "late", None),
        ),
        (round_of(settled=(5,), done=IngestResult(unplaced=1)), ("handled", "rejected", None)),
        (round_of(failures=((letter(), "again"),)), ("failed", None, "again")),
        (round_of(settled_before=(5,)), ("already_handled", None, None)),
    ],
)
def test_one_letter_s_fate_in_words(
    done: RedriveRound, result: tuple[str, str | None, str]
) -> None:
    document = document_of(DeadLetterRedriven.of_round(5, done))
    assert (document["result"], document.get("verdict"), document.get("error")) == result


def test_a_round_tells_its_numbers_and_where_it_goes_on() -> None:
    done = round_of(
        selected=RedriveBatch(ids=(5, 6, 7), reached=7, remaining=2, is_more=True, unknown=(3,)),
        done=IngestResult(verdicts={"matched": 1, "rejected": 1}, unplaced=2),
        settled=(6, 7),
        failures=((letter(), "again"),),
        settled_before=(4,),
    )
    document = document_of(RedriveReply.of_round(done))
    assert document["failures"] == [
        {"letterId": 5, "topic": "orders", "partition": 2, "offset": 7, "error": "again"}
    ]
    assert (document["handled"], document["failed"], document["alreadyHandled"]) == (2, 1, 1)
    assert (document["remaining"], document["nextCursor"], document["unknown"]) == (2, "7", [3])
    assert document["verdicts"] == {"matched": 1, "rejected": 3}
    last = RedriveReply.of_round(round_of())
    assert (last.remaining, last.next_cursor) == (0, None)
