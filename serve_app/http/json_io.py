"""JSON in and out. msgspec, because it keeps numbers exact whatever their length."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Scope

from core.shared.json_limits import MAX_DEPTH, is_deeper
from core.shared.media_types import JSON, media_type
from serve_app.http.field_errors import FieldError, field_errors_of
from serve_app.http.nul_check import check_texts
from serve_app.http.problems import Problem, ProblemError, invalid_request
from serve_app.limits.large_bodies import LARGE_BODY_BYTES
from serve_app.limits.load_limiter import REQUEST_SLOT
from serve_app.limits.timeouts import with_timeout

_CONTENT_TYPE = JSON.encode()

_DECODED_HEADERS = "muster.headers"

Model = TypeVar("Model", bound=BaseModel)


def headers_of(request: Request) -> dict[str, str]:
    """Return headers by name in lower case; of a repeated header the last."""
    return headers_of_scope(request.scope)


def headers_of_scope(scope: Scope) -> dict[str, str]:
    """Return the headers of a request, which are decoded once."""
    known: dict[str, str] | None = scope.get(_DECODED_HEADERS)
    if known is None:
        pairs = scope["headers"]
        try:
            known = {name.decode("latin-1"): value.decode() for name, value in pairs}
        except UnicodeDecodeError:
            known = {name.decode("latin-1"): _header_text(value) for name, value in pairs}
        scope[_DECODED_HEADERS] = known
    return known


def _header_text(value: bytes) -> str:
    """Decode a value. Ids may hold letters beyond ASCII, which senders write as UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


class _Batch(msgspec.Struct, forbid_unknown_fields=True):
    items: list[msgspec.Raw]


_BATCH = msgspec.json.Decoder(_Batch)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


async def read_body(request: Request, timeout_seconds: float) -> bytes:
    """The body as it came.

    Raises:
        ProblemError: It is not declared as JSON, too large, or too slow to come.
    """
    check_content_type(headers_of(request).get("content-type"))
    return await read_any_body(request, timeout_seconds)


async def read_any_body(request: Request, timeout_seconds: float) -> bytes:
    """The body as it came, whatever it is declared as.

    Raises:
        ProblemError: It is too large, or too slow to come.
    """
    try:
        raw = await with_timeout(timeout_seconds, _receive(request))
    except TimeoutError:
        detail = f"the body did not come within {timeout_seconds:g} s"
        raise body_timed_out(detail) from None
    if len(raw) > LARGE_BODY_BYTES:
        await request.scope[REQUEST_SLOT].begin_large_body(timeout_seconds)
    return raw


def body_timed_out(detail: str) -> ProblemError:
    """The body did not come; the connection ends, since the rest of it is not read."""
    close = {"Connection": "close"}
    return ProblemError(Problem(status=408, code="request_timeout", detail=detail, headers=close))


async def _receive(request: Request) -> bytes:
    """As Starlette's `body`, without the generator round each chunk."""
    chunks: list[bytes] = []
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def check_content_type(declared: str | None) -> None:
    """Let JSON pass, and whatever is JSON by its suffix."""
    if declared is None or declared == JSON:
        return
    kind = media_type(declared)
    if kind != JSON and not (kind.startswith("application/") and kind.endswith("+json")):
        detail = f"the body must be {JSON}, not {kind[:80] or 'nothing'}"
        raise ProblemError(Problem(status=415, code="unsupported_media_type", detail=detail))


def parse(raw: bytes) -> Any:
    """What the bytes say."""
    try:
        document = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise _malformed(f"the body is not JSON: {error}") from None
    except UnicodeDecodeError:
        raise _malformed("the body is not UTF-8") from None
    except RecursionError:
        raise _malformed(f"the body is nested deeper than {MAX_DEPTH} levels") from None
    # Counting brackets is much cheaper than a walk, and settles all but odd documents.
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and is_deeper(document, MAX_DEPTH):
        raise _malformed(f"the body is nested deeper than {MAX_DEPTH} levels")
    return document


def parse_as(model: type[Model], raw: bytes | msgspec.Raw) -> Model:
    """The bytes as a request model. Strict: "true" is not true, and hides no mistake."""
    content = bytes(raw)
    try:
        read = model.model_validate_json(content, strict=True)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        if errors[0]["type"] == "json_invalid":
            raise _malformed(f"the body is not JSON: {errors[0]['ctx']['error']}") from None
        raise ProblemError(invalid_request(field_errors_of(errors))) from None
    check_texts(read, content)
    return read


def parse_items(raw: bytes, max_items: int) -> list[msgspec.Raw]:
    """The items of a batch, unread: each of them is to be refused on its own."""
    try:
        items = _BATCH.decode(raw).items
    except msgspec.ValidationError as error:
        parse(raw)  # what is not JSON at all is told so, wherever the reader gave up
        raise ProblemError(
            invalid_request([FieldError("body", f'{{"items": […]}}: {error}')])
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed(f"the body is not JSON: {error}") from None
    if not 1 <= len(items) <= max_items:
        raise ProblemError(
            invalid_request([FieldError("items", f"1 to {max_items} items", len(items))])
        )
    return items


class RawEventItem(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """An item of a batch of events, as nearly all of them are."""

    execution_id: str | None = None
    correlation_id: str | None = None
    event_id: str | None = None
    body: msgspec.Raw = msgspec.Raw(b"null")


_ITEM = msgspec.json.Decoder(RawEventItem)


def decode_event_item(raw: msgspec.Raw) -> RawEventItem | None:
    """The item, or None if it takes a closer look to say what is wrong with it."""
    try:
        return _ITEM.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def split_body(raw: msgspec.Raw) -> tuple[bytes, msgspec.Raw]:
    """An item of a batch as two: its `body`, to the byte as it came, and all the rest."""
    try:
        fields = _OBJECT.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProblemError(invalid_request([FieldError("item", f"an object: {error}")])) from None
    body = fields.pop("body", msgspec.Raw(b"null"))
    return bytes(body), msgspec.Raw(msgspec.json.encode(fields))


class JsonResponse(Response):
    """A JSON answer. Starlette's own way to the same two headers costs as much as the JSON."""

    def __init__(self, raw: bytes, status: int) -> None:
        self.body = raw
        self.status_code = status
        self.background = None
        self.raw_headers = [
            (b"content-length", b"%d" % len(raw)),
            (b"content-type", _CONTENT_TYPE),
        ]


def json_response(
    document: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A JSON answer."""
    response = JsonResponse(msgspec.json.encode(document), status)
    if headers:
        response.headers.update(headers)
    return response


def _malformed(detail: str) -> ProblemError:
    return ProblemError(Problem(status=400, code="malformed_json", detail=detail))
