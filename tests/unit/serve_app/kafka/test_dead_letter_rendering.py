import base64
from typing import Any

import msgspec
import pytest

from core.kafka.message import KafkaMessage
from serve_app.kafka.dead_letter_models import (
    DeadLetterPage,
    DeadLetterRedriven,
    DeadLetterView,
    RedriveReply,
)
from serve_app.kafka.dead_letter_rendering import (
    dead_letter_document,
    dead_letter_item,
    redrive_document,
    redriven_document,
)
from services.kafka.ingest import IngestResult
from services.kafka.redrive import RedriveBatch, RedriveRound
from storage.kafka.dead_letters import DeadLetter


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


def sent(document: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(document))


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
    document = sent(dead_letter_document(letter(), record(value)))
    assert (document.get("data"), document["dataEncoding"]) == (data, encoding)
    DeadLetterView.model_validate(document)


def test_json_goes_out_as_it_came() -> None:
    assert b'{"a": 1.10}' in msgspec.json.encode(
        dead_letter_document(letter(), record(b'{"a": 1.10}'))
    )


def test_keys_and_headers_are_text_where_they_can_be() -> None:
    headers = (("a", "ü".encode()), ("a", b"\xff"))
    document = sent(dead_letter_document(letter(), record(b"1", key=b"\xfe", headers=headers)))
    assert document["headers"] == [
        {"name": "a", "value": "ü", "encoding": "text"},
        {"name": "a", "value": base64.b64encode(b"\xff").decode(), "encoding": "base64"},
    ]
    assert (document["key"], document["keyEncoding"]) == ("/g==", "base64")
    without = sent(dead_letter_document(letter(), record(b"1")))
    assert ("key" in without, without["keyEncoding"]) == (False, "none")


def test_a_listing_tells_what_was_handled_after_all() -> None:
    items = [
        dead_letter_item(letter()),
        dead_letter_item(letter(redriven_at=1_700_000_001.0, size=None)),
    ]
    page = DeadLetterPage.model_validate(sent({"items": items, "nextCursor": None}))
    assert page.items[0].redriven_at is None
    assert page.items[1].redriven_at is not None


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
    document = sent(redriven_document(5, done))
    DeadLetterRedriven.model_validate(document)
    assert (document["result"], document.get("verdict"), document.get("error")) == result


def test_a_round_tells_its_numbers_and_where_it_goes_on() -> None:
    done = round_of(
        selected=RedriveBatch(ids=(5, 6, 7), reached=7, remaining=2, is_more=True, unknown=(3,)),
        done=IngestResult(verdicts={"matched": 1, "rejected": 1}, unplaced=2),
        settled=(6, 7),
        failures=((letter(), "again"),),
        settled_before=(4,),
    )
    document = sent(redrive_document(done))
    RedriveReply.model_validate(document)
    assert (document["handled"], document["failed"], document["alreadyHandled"]) == (2, 1, 1)
    assert (document["remaining"], document["nextCursor"], document["unknown"]) == (2, "7", [3])
    assert document["verdicts"] == {"matched": 1, "rejected": 3}
    last = redrive_document(round_of())
    assert (last["remaining"], last["nextCursor"]) == (0, None)
