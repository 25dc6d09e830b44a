"""Dead letters: list, redrive and delete Kafka messages that could not be handled."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import Response

from core.access.permissions import Permission
from core.shared.errors import NotFoundError
from serve_app.http.cursors import next_id_cursor, read_id_cursor
from serve_app.http.json_io import json_response, parse_as, read_body
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.permissions import caller_of, replica_of, requires
from serve_app.http.raw_route import RawRoute
from serve_app.kafka.dead_letter_models import (
    DeadLetterPage,
    DeadLetterQuery,
    DeadLetterRedriven,
    DeadLetterView,
    RedriveReply,
    RedriveRequest,
)
from serve_app.kafka.dead_letter_rendering import (
    dead_letter_document,
    dead_letter_item,
    redrive_document,
    redriven_document,
)
from services.kafka.redrive import RedriveSelection
from storage.kafka import dead_letters
from storage.kafka.dead_letters import DeadLetterFilter

raw_router = APIRouter(route_class=RawRoute, tags=["dead letters"])
router = APIRouter(tags=["dead letters"])

DeadLetterId = Annotated[int, Path(alias="letterId", ge=1, lt=2**63)]


class _Digits(Convertor[str]):
    """Matches digits only, so that `redrive` is no id; endpoints check the number."""

    regex = "[0-9]{1,19}"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("digits", _Digits())


@router.get(
    "/api/dead-letters",
    dependencies=[requires(Permission.DEAD_LETTERS_READ)],
    operation_id="listDeadLetters",
    responses=describe_responses({200: DeadLetterPage}),
)
async def list_letters(request: Request, query: Annotated[DeadLetterQuery, Query()]) -> Response:
    """List Kafka messages that could not be handled, newest first, without their data."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    chosen = DeadLetterFilter(topic=query.topic, error=query.error, redriven=query.redriven)
    before = read_id_cursor(query.cursor)
    found = await replica.listings.query(dead_letters.page, tenant, chosen, before, query.limit)
    ids = [one.letter_id for one in found.items]
    more = next_id_cursor(ids, found.scanned_to, query.limit)
    return json_response(
        {"items": [dead_letter_item(one) for one in found.items], "nextCursor": more}
    )


@router.get(
    "/api/dead-letters/{letterId:digits}",
    dependencies=[requires(Permission.DEAD_LETTERS_READ)],
    operation_id="showDeadLetter",
    responses=describe_responses({200: DeadLetterView}, 404),
)
async def show_letter(request: Request, letter_id: DeadLetterId) -> Response:
    """Show one message with its key, headers and data; bytes that are no JSON are in base64."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    for letter in await replica.database.query(dead_letters.read, tenant, [letter_id]):
        if letter.message is not None:
            return json_response(dead_letter_document(letter, letter.message))
    raise _unknown(letter_id)


@router.post(
    "/api/dead-letters/{letterId:digits}/redrive",
    dependencies=[requires(Permission.DEAD_LETTERS_WRITE)],
    operation_id="redriveDeadLetter",
    responses=describe_responses({200: DeadLetterRedriven}, 404),
)
async def redrive_letter(request: Request, letter_id: DeadLetterId) -> Response:
    """Handle one message again, as if it were read from its topic now."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    done = await replica.redrive.run(tenant, RedriveSelection(ids=(letter_id,)))
    if done.selected.unknown:
        raise _unknown(letter_id)
    return json_response(redriven_document(letter_id, done))


@raw_router.post(
    "/api/dead-letters/redrive",
    dependencies=[requires(Permission.DEAD_LETTERS_WRITE)],
    operation_id="redriveDeadLetters",
    responses=describe_responses({200: RedriveReply}),
    openapi_extra=json_body(RedriveRequest),
)
async def redrive_letters(request: Request) -> Response:
    """Handle messages again, oldest first, a limited number per call; see `nextCursor`."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    body = parse_as(RedriveRequest, await read_body(request, replica.config.request_timeout))
    choice = RedriveSelection(
        ids=None if body.ids is None else tuple(body.ids),
        filter=DeadLetterFilter(topic=body.topic, error=body.error),
        after=read_id_cursor(body.cursor) or 0,
        limit=body.limit,
    )
    return json_response(redrive_document(await replica.redrive.run(tenant, choice)))


@router.delete(
    "/api/dead-letters/{letterId:digits}",
    dependencies=[requires(Permission.DEAD_LETTERS_WRITE)],
    operation_id="deleteDeadLetter",
    status_code=204,
    responses=describe_responses({}, 404),
)
async def delete_letter(request: Request, letter_id: DeadLetterId) -> Response:
    """Delete a message that could not be handled."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    if not await replica.database.query(dead_letters.delete, tenant, letter_id):
        raise _unknown(letter_id)
    return Response(status_code=204)


def _unknown(letter_id: int) -> NotFoundError:
    return NotFoundError(f"dead letter {letter_id}")
