"""Dead letters as JSON documents."""

from core.kafka.message import KafkaMessage
from core.shared.timestamps import to_iso
from core.waits.messages import Verdict
from serve_app.http.fields import json_or_base64, text_or_base64
from serve_app.http.models import Document, drop_none
from serve_app.kafka.dead_letter_models import RedriveResult
from services.kafka.redrive import RedriveRound
from storage.kafka.dead_letters import DeadLetter


def dead_letter_item(letter: DeadLetter) -> Document:
    """Render a dead letter for a listing, without its data."""
    return drop_none(
        {
            **_place(letter),
            "error": letter.error,
            "attempts": letter.attempts,
            "size": letter.size,
            "failedAt": to_iso(letter.failed_at),
            "redrivenAt": None if letter.redriven_at is None else to_iso(letter.redriven_at),
        }
    )


def dead_letter_document(letter: DeadLetter, record: KafkaMessage) -> Document:
    """Render a dead letter with its key, headers and data."""
    key, key_encoding = text_or_base64(record.key)
    data, data_encoding = json_or_base64(record.value)
    headers = []
    for name, raw in record.headers:
        value, encoding = text_or_base64(raw)
        headers.append({"name": name, "value": value, "encoding": encoding})
    whole = {
        "key": key,
        "keyEncoding": key_encoding,
        "headers": headers,
        "data": data,
        "dataEncoding": data_encoding,
    }
    return dead_letter_item(letter) | drop_none(whole)


def verdicts_of(done: RedriveRound) -> dict[str, int]:
    """Count the verdicts; messages without ids count as rejected, as in the inbox."""
    verdicts = {str(verdict): count for verdict, count in done.done.verdicts.items()}
    if done.done.unplaced:
        verdicts[Verdict.REJECTED] = verdicts.get(Verdict.REJECTED, 0) + done.done.unplaced
    return verdicts


def redrive_document(done: RedriveRound) -> Document:
    """Render the result of one call that redrives several dead letters."""
    selected = done.selected
    return {
        "handled": len(done.settled),
        "failed": len(done.failures),
        "alreadyHandled": len(done.settled_before),
        "remaining": selected.remaining,
        "nextCursor": str(selected.reached) if selected.is_more else None,
        "verdicts": verdicts_of(done),
        "failures": [{**_place(letter), "error": error} for letter, error in done.failures],
        "unknown": list(selected.unknown),
    }


def redriven_document(letter_id: int, done: RedriveRound) -> Document:
    """Render the result of redriving one dead letter."""
    if done.failures:
        result, error = RedriveResult.FAILED, done.failures[0][1]
    else:
        result = RedriveResult.HANDLED if done.settled else RedriveResult.ALREADY_HANDLED
        error = None
    verdict = next(iter(verdicts_of(done)), None)
    return drop_none({"letterId": letter_id, "result": result, "verdict": verdict, "error": error})


def _place(letter: DeadLetter) -> Document:
    return {
        "letterId": letter.letter_id,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
    }
