"""Dead letters: look at what could not be handled, try it again, forget it."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import Response

from core.access.permissions import Permission
from core.shared.errors import NotFoundError
from serve_app.http.cursors import next_id_cursor, read_id_cursor
from serve_app.http.json_io import answer, parse_as, read_body
from serve_app.http.openapi import body, described
from serve_app.http.permissions import caller_of, replica_of, requires
from serve_app.http.raw_route import LeanRoute
from serve_app.kafka.dead_letter_models import (
    LetterPage,
    LetterQuery,
    LetterRedriven,
    LetterView,
    RedriveReply,
    RedriveRequest,
)
from serve_app.kafka.dead_letter_rendering import (
    letter_document,
    letter_item,
    redriven_document,
    round_document,
)
from serve_app.kafka.redrive import Choice
from storage.kafka import dead_letters
from storage.kafka.dead_letters import LetterFilter

lean = APIRouter(route_class=LeanRoute, tags=["dead letters"])
router = APIRouter(tags=["dead letters"])

LetterId = Annotated[int, Path(alias="letterId", ge=1, lt=2**63)]


class _Digits(Convertor[str]):
    """Keeps `redrive` from being taken for an id; what the digits are worth is checked later."""

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
    responses=described({200: LetterPage}),
)
async def list_letters(request: Request, query: Annotated[LetterQuery, Query()]) -> Response:
    """List Kafka records that could not be handled, newest first, without their data."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    chosen = LetterFilter(topic=query.topic, error=query.error, redriven=query.redriven)
    before = read_id_cursor(query.cursor)
    found = await replica.listings.ask(dead_letters.page, tenant, chosen, before, query.limit)
    ids = [one.letter_id for one in found.items]
    more = next_id_cursor(ids, found.looked_to, query.limit)
    return answer({"items": [letter_item(one) for one in found.items], "nextCursor": more})


@router.get(
    "/api/dead-letters/{letterId:digits}",
    dependencies=[requires(Permission.DEAD_LETTERS_READ)],
    operation_id="showDeadLetter",
    responses=described({200: LetterView}, 404),
)
async def show_letter(request: Request, letter_id: LetterId) -> Response:
    """Show one record with its key, its headers and its data; bytes that are no JSON in base64."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    for letter in await replica.database.ask(dead_letters.read, tenant, [letter_id]):
        if letter.record is not None:
            return answer(letter_document(letter, letter.record))
    raise _unknown(letter_id)


@router.post(
    "/api/dead-letters/{letterId:digits}/redrive",
    dependencies=[requires(Permission.DEAD_LETTERS_WRITE)],
    operation_id="redriveDeadLetter",
    responses=described({200: LetterRedriven}, 404),
)
async def redrive_letter(request: Request, letter_id: LetterId) -> Response:
    """Handle one record again, as if it were read from its topic now."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    done = await replica.redrive.run(tenant, Choice(ids=(letter_id,)))
    if done.selected.unknown:
        raise _unknown(letter_id)
    return answer(redriven_document(letter_id, done))


@lean.post(
    "/api/dead-letters/redrive",
    dependencies=[requires(Permission.DEAD_LETTERS_WRITE)],
    operation_id="redriveDeadLetters",
    responses=described({200: RedriveReply}),
    openapi_extra=body(RedriveRequest),
)
async def redrive_letters(request: Request) -> Response:
    """Handle records again, oldest first, a bounded number a call; nextCursor leads to the rest."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    wish = parse_as(RedriveRequest, await read_body(request, replica.config.request_timeout))
    choice = Choice(
        ids=None if wish.ids is None else tuple(wish.ids),
        filter=LetterFilter(topic=wish.topic, error=wish.error),
        after=read_id_cursor(wish.cursor) or 0,
        limit=wish.limit,
    )
    return answer(round_document(await replica.redrive.run(tenant, choice)))


@router.delete(
    "/api/dead-letters/{letterId:digits}",
    dependencies=[requires(Permission.DEAD_LETTERS_WRITE)],
    operation_id="deleteDeadLetter",
    status_code=204,
    responses=described({}, 404),
)
async def delete_letter(request: Request, letter_id: LetterId) -> Response:
    """Forget a record; nobody will handle it."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    if not await replica.database.ask(dead_letters.delete, tenant, letter_id):
        raise _unknown(letter_id)
    return Response(status_code=204)


def _unknown(letter_id: int) -> NotFoundError:
    return NotFoundError(f"dead letter {letter_id}")
