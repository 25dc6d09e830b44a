"""Dead letters: list, redrive and delete Kafka messages that could not be handled."""

from typing import Annotated

from fastapi import Path, Query

from core.shared.errors import NotFoundError
from serve_app.http.cursors import read_id_cursor
from serve_app.http.path_types import DIGITS
from serve_app.http.router import Context, HttpRouter, unless_missing
from serve_app.kafka.dead_letter_models import (
    DeadLetterPage,
    DeadLetterQuery,
    DeadLetterRedriven,
    DeadLetterView,
    RedriveReply,
    RedriveRequest,
)
from services.kafka.redrive import RedriveSelection
from storage.kafka import dead_letters
from storage.kafka.dead_letters import DeadLetterFilter

router = HttpRouter("/api/dead-letters", tag="dead letters", access="dead_letters")

DeadLetterId = Annotated[int, Path(alias="letterId", ge=1, lt=2**63)]
# `redrive` is no id.
_ONE = f"/{{letterId:{DIGITS}}}"


@router.get()
async def list_dead_letters(
    query: Annotated[DeadLetterQuery, Query()], context: Context
) -> DeadLetterPage:
    """List Kafka messages that could not be handled, newest first, without their data."""
    chosen = DeadLetterFilter(topic=query.topic, error=query.error, redriven=query.redriven)
    before = read_id_cursor(query.cursor)
    found = await context.list(dead_letters.page, chosen, before, query.limit)
    return DeadLetterPage.of_scan(found, query.limit, lambda letter: letter.letter_id)


@router.get(_ONE, refuses=(404,))
async def show_dead_letter(letter_id: DeadLetterId, context: Context) -> DeadLetterView:
    """Show one message with its key, headers and data; bytes that are no JSON are in base64."""
    for letter in await context.read(dead_letters.read, [letter_id]):
        if letter.message is not None:
            return DeadLetterView.of_message(letter, letter.message)
    raise NotFoundError(f"dead letter {letter_id}")


@router.post(f"{_ONE}/redrive", refuses=(404,))
async def redrive_dead_letter(letter_id: DeadLetterId, context: Context) -> DeadLetterRedriven:
    """Handle one message again, as if it were read from its topic now."""
    choice = RedriveSelection(ids=(letter_id,))
    done = await context.replica.redrive.run(context.tenant, choice)
    if done.selected.unknown:
        raise NotFoundError(f"dead letter {letter_id}")
    return DeadLetterRedriven.of_round(letter_id, done)


@router.post("/redrive")
async def redrive_dead_letters(body: RedriveRequest, context: Context) -> RedriveReply:
    """Handle messages again, oldest first, a limited number per call; see `nextCursor`."""
    choice = RedriveSelection(
        ids=None if body.ids is None else tuple(body.ids),
        filter=DeadLetterFilter(topic=body.topic, error=body.error),
        after=read_id_cursor(body.cursor) or 0,
        limit=body.limit,
    )
    return RedriveReply.of_round(await context.replica.redrive.run(context.tenant, choice))


@router.delete(_ONE, refuses=(404,))
async def delete_dead_letter(letter_id: DeadLetterId, context: Context) -> None:
    """Delete a message that could not be handled."""
    unless_missing(await context.read(dead_letters.delete, letter_id), f"dead letter {letter_id}")
