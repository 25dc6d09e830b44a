"""Requests and responses of dead letters."""

from collections import Counter
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from core.kafka.message import KafkaMessage
from core.waits.config import Topic
from core.waits.messages import Verdict
from serve_app.http import fields
from serve_app.http.fields import Cursor, Encoding, IsoTime, Limit
from serve_app.http.models import PayloadView, View, WireModel
from serve_app.http.page import Page
from services.kafka.redrive import MAX_DEAD_LETTERS, RedriveRound
from storage.kafka.dead_letters import DeadLetter

ErrorText = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(fields.is_printable)]
DeadLetterNumber = Annotated[int, Field(ge=1, lt=2**63)]


class DeadLetterQuery(WireModel):
    """Which dead letters a listing shows."""

    topic: Topic | None = None
    error: ErrorText | None = Field(None, description="Part of the error's text, in any case.")
    redriven: bool = Field(False, description="Those handled after all, instead of the open ones.")
    limit: Limit = 50
    cursor: Cursor = None


class DeadLetterItem(View):
    """A Kafka message that could not be handled."""

    letter_id: int
    topic: str
    partition: int
    offset: int
    error: str
    attempts: int
    size: int | None = fields.optional("Bytes of its value; left out for a tombstone.")
    failed_at: IsoTime
    redriven_at: IsoTime | None = fields.optional("When it was handled after all.")


class DeadLetterPage(Page[DeadLetterItem]):
    """A page of dead letters, newest first."""


class DeadLetterHeader(View):
    """One header of a Kafka message."""

    name: str
    value: str | None
    encoding: Encoding = Field(description="text, base64, or none where the value is null")


class DeadLetterView(DeadLetterItem, PayloadView):
    """A dead letter with its key, headers and data."""

    key: str | None = fields.optional()
    key_encoding: Encoding = Field(description="text, base64, or none where there is no key")
    headers: list[DeadLetterHeader]
    data: Any = fields.optional("The value; in base64 where it is no JSON.")
    data_encoding: Encoding = Field(description="json, base64, or none for a tombstone")

    @classmethod
    def of_message(cls, letter: DeadLetter, message: KafkaMessage) -> "DeadLetterView":
        key, key_encoding = fields.text_or_base64(message.key)
        data, data_encoding = fields.json_or_base64(message.value)
        headers = []
        for name, raw in message.headers:
            value, encoding = fields.text_or_base64(raw)
            headers.append(DeadLetterHeader(name=name, value=value, encoding=encoding))
        return cls.model_construct(
            **DeadLetterItem.of(letter).__dict__,
            key=key,
            key_encoding=key_encoding,
            headers=headers,
            data=data,
            data_encoding=data_encoding,
        )


class RedriveRequest(WireModel):
    """Which dead letters to handle again: ids, a filter, or all."""

    ids: (
        Annotated[list[DeadLetterNumber], Field(min_length=1, max_length=MAX_DEAD_LETTERS)] | None
    ) = None
    topic: Topic | None = None
    error: ErrorText | None = Field(None, description="Part of the error's text, in any case.")
    all: bool = Field(False, description="Every open letter.")
    limit: Annotated[int, Field(ge=1, le=MAX_DEAD_LETTERS)] = Field(
        100, description="Most letters of this call; large ones make it fewer."
    )
    cursor: str | None = Field(None, description="nextCursor of the call before.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        filtered = self.topic is not None or self.error is not None
        if [self.ids is not None, filtered, self.all].count(True) != 1:
            raise ValueError("name ids, or topic and/or error, or all")
        return self


class RedriveResult(StrEnum):
    """The result of redriving one dead letter."""

    HANDLED = "handled"
    FAILED = "failed"
    ALREADY_HANDLED = "already_handled"


class DeadLetterRedriven(View):
    """The result of redriving one dead letter."""

    letter_id: int
    result: RedriveResult
    verdict: Verdict | None = fields.optional("What became of its event.")
    error: str | None = fields.optional("Why it failed again.")

    @classmethod
    def of_round(cls, letter_id: int, done: RedriveRound) -> Self:
        result = RedriveResult.HANDLED if done.settled else RedriveResult.ALREADY_HANDLED
        error = None
        if done.failures:
            result, error = RedriveResult.FAILED, done.failures[0][1]
        verdict = next(iter(_verdicts(done)), None)
        return cls(letter_id=letter_id, result=result, verdict=verdict, error=error)


class RedriveFailure(View):
    """A dead letter that failed again."""

    letter_id: int
    topic: str
    partition: int
    offset: int
    error: str


class RedriveReply(View):
    """The results of this call, and how many dead letters are left for the next."""

    handled: int
    failed: int
    already_handled: int
    remaining: int = Field(
        description="Letters behind nextCursor that were not tried yet, counted to 100000."
    )
    next_cursor: str | None = Field(description="Send it with the same choice to go on.")
    verdicts: dict[Verdict, int] = Field(description="What became of the handled events.")
    failures: list[RedriveFailure]
    unknown: list[int] = Field(description="Ids under which there is no dead letter.")

    @classmethod
    def of_round(cls, done: RedriveRound) -> Self:
        selected = done.selected
        return cls(
            handled=len(done.settled),
            failed=len(done.failures),
            already_handled=len(done.settled_before),
            remaining=selected.remaining,
            next_cursor=str(selected.reached) if selected.is_more else None,
            verdicts=_verdicts(done),
            failures=[
                RedriveFailure.of(replace(letter, error=error)) for letter, error in done.failures
            ],
            unknown=list(selected.unknown),
        )


def _verdicts(done: RedriveRound) -> dict[Verdict, int]:
    """Count the verdicts; messages without ids count as rejected, as in the inbox."""
    verdicts = Counter({Verdict(name): count for name, count in done.done.verdicts.items()})
    if done.done.unplaced:
        verdicts[Verdict.REJECTED] += done.done.unplaced
    return verdicts
