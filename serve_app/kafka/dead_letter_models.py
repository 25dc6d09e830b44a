"""Requests and responses of dead letters."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from core.waits.config import Topic
from core.waits.messages import Verdict
from serve_app.http.fields import Encoding, is_printable
from serve_app.http.models import WireModel
from services.kafka.redrive import MAX_DEAD_LETTERS

ErrorText = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(is_printable)]
DeadLetterNumber = Annotated[int, Field(ge=1, lt=2**63)]


class DeadLetterQuery(WireModel):
    """Which dead letters a listing shows."""

    topic: Topic | None = None
    error: ErrorText | None = Field(None, description="Part of the error's text, in any case.")
    redriven: bool = Field(False, description="Those handled after all, instead of the open ones.")
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: str | None = Field(None, description="nextCursor of the page before.")


class DeadLetterItem(WireModel):
    """A Kafka message that could not be handled."""

    letter_id: int
    topic: str
    partition: int
    offset: int
    error: str
    attempts: int
    size: int | None = Field(None, description="Bytes of its value; left out for a tombstone.")
    failed_at: datetime
    redriven_at: datetime | None = Field(None, description="When it was handled after all.")


class DeadLetterPage(WireModel):
    """A page of dead letters, newest first."""

    items: list[DeadLetterItem]
    next_cursor: str | None


class DeadLetterHeader(WireModel):
    """One header of a Kafka message."""

    name: str
    value: str | None
    encoding: Encoding = Field(description="text, base64, or none where the value is null")


class DeadLetterView(DeadLetterItem):
    """A dead letter with its key, headers and data."""

    key: str | None = None
    key_encoding: Encoding = Field(description="text, base64, or none where there is no key")
    headers: list[DeadLetterHeader]
    data: Any = Field(None, description="The value; in base64 where it is no JSON.")
    data_encoding: Encoding = Field(description="json, base64, or none for a tombstone")


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


class DeadLetterRedriven(WireModel):
    """The result of redriving one dead letter."""

    letter_id: int
    result: RedriveResult
    verdict: Verdict | None = Field(None, description="What became of its event.")
    error: str | None = Field(None, description="Why it failed again.")


class RedriveFailure(WireModel):
    """A dead letter that failed again."""

    letter_id: int
    topic: str
    partition: int
    offset: int
    error: str


class RedriveReply(WireModel):
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
