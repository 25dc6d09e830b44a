"""JSON bodies of requests and responses. msgspec keeps numbers exact, whatever their length."""

import asyncio
from collections.abc import Awaitable, Coroutine, Generator, Mapping
from types import CoroutineType
from typing import Any, Generic, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Scope

from core.shared.json_limits import MAX_DEPTH, is_deeper
from core.shared.media_types import JSON, media_type
from serve_app.http.field_errors import FieldError, field_errors_of
from serve_app.http.nul_check import check_texts
from serve_app.http.problems import ProblemError, invalid_fields, problem_error
from serve_app.limits.large_bodies import LARGE_BODY_BYTES
from serve_app.limits.load_limiter import REQUEST_SLOT

_CONTENT_TYPE = JSON.encode()

_DECODED_HEADERS = "muster.headers"

T = TypeVar("T")
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
    """Decode the value of a header as UTF-8, which senders use for ids beyond ASCII."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


class _Batch(msgspec.Struct, forbid_unknown_fields=True):
    items: list[msgspec.Raw]


_BATCH = msgspec.json.Decoder(_Batch)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


async def read_body(request: Request, timeout_seconds: float) -> bytes:
    """Return the bytes of a JSON body; raise ProblemError if they are no JSON or too slow."""
    check_content_type(headers_of(request).get("content-type"))
    return await read_any_body(request, timeout_seconds)


async def read_any_body(request: Request, timeout_seconds: float) -> bytes:
    """Return the bytes of a body of any type; raise ProblemError if they are too slow."""
    try:
        raw = await with_timeout(timeout_seconds, _receive(request))
    except TimeoutError:
        detail = f"the body did not come within {timeout_seconds:g} s"
        raise body_timed_out(detail) from None
    if len(raw) > LARGE_BODY_BYTES:
        await request.scope[REQUEST_SLOT].begin_large_body(timeout_seconds)
    return raw


def body_timed_out(detail: str) -> ProblemError:
    """Make the error of a body that is too slow; it closes the connection, as bytes may follow."""
    close = {"Connection": "close"}
    return problem_error(408, "request_timeout", detail, headers=close)


async def with_timeout(seconds: float, work: Awaitable[T]) -> T:
    """Return the result of `work`; `asyncio.timeout` does the same at four times the cost.

    Work that ends without waiting, such as reading most bodies, needs no timer.
    """
    if not isinstance(work, CoroutineType):
        return await _bounded(seconds, work)
    try:
        waits_for = work.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    return await _bounded(seconds, _Begun(work, waits_for))


class _Begun(Generic[T]):
    """A coroutine that has run up to its first wait; awaiting it continues from there."""

    __slots__ = ("_waits_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._work = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    sent = yield waits_for
                except BaseException as error:
                    waits_for = self._work.throw(error)
                else:
                    waits_for = self._work.send(sent)
        except StopIteration as done:
            value: T = done.value
            return value


async def _bounded(seconds: float, work: Awaitable[T]) -> T:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  this is a coroutine
    before, timed_out = task.cancelling(), False

    def on_timeout() -> None:
        nonlocal timed_out
        timed_out = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(seconds, on_timeout)
    try:
        return await work
    except asyncio.CancelledError:
        if timed_out and task.uncancel() <= before:
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()


async def _receive(request: Request) -> bytes:
    """Read the whole body; Starlette's `body` is slower, because it wraps each chunk."""
    chunks: list[bytes] = []
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def wait_for_disconnect(request: Request) -> None:
    """Return when the client has disconnected. The body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def check_content_type(declared: str | None) -> None:
    if declared is None or declared == JSON:
        return
    kind = media_type(declared)
    if kind != JSON and not (kind.startswith("application/") and kind.endswith("+json")):
        detail = f"the body must be {JSON}, not {kind[:80] or 'nothing'}"
        raise problem_error(415, "unsupported_media_type", detail)


def parse(raw: bytes) -> Any:
    """Decode JSON of any form; raise ProblemError if it is malformed or too deeply nested."""
    try:
        document = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise _malformed(f"the body is not JSON: {error}") from None
    except UnicodeDecodeError:
        raise _malformed("the body is not UTF-8") from None
    except RecursionError:
        raise _malformed(f"the body is nested deeper than {MAX_DEPTH} levels") from None
    # Counting brackets is much cheaper than a walk, and is enough for most documents.
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and is_deeper(document, MAX_DEPTH):
        raise _malformed(f"the body is nested deeper than {MAX_DEPTH} levels")
    return document


def parse_as(model: type[Model], raw: bytes | msgspec.Raw) -> Model:
    """Decode a request model in pydantic's strict mode, in which the text "true" is no boolean."""
    content = bytes(raw)
    try:
        read = model.model_validate_json(content, strict=True)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        if errors[0]["type"] == "json_invalid":
            raise _malformed(f"the body is not JSON: {errors[0]['ctx']['error']}") from None
        raise invalid_fields(*field_errors_of(errors)) from None
    check_texts(read, content)
    return read


def parse_items(raw: bytes, max_items: int) -> list[msgspec.Raw]:
    """Split a batch into undecoded items, so that a faulty item does not affect the others."""
    try:
        items = _BATCH.decode(raw).items
    except msgspec.ValidationError as error:
        parse(raw)  # raises a clearer error if the body is not JSON at all
        raise invalid_fields(FieldError("body", f'{{"items": […]}}: {error}')) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed(f"the body is not JSON: {error}") from None
    if not 1 <= len(items) <= max_items:
        raise invalid_fields(FieldError("items", f"1 to {max_items} items", len(items)))
    return items


class RawEventItem(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """An item of a batch of events in its usual form."""

    execution_id: str | None = None
    correlation_id: str | None = None
    event_id: str | None = None
    body: msgspec.Raw = msgspec.Raw(b"null")


_ITEM = msgspec.json.Decoder(RawEventItem)


def decode_event_item(raw: msgspec.Raw) -> RawEventItem | None:
    """Decode an item of the usual form; return None for others, which the slow path validates."""
    try:
        return _ITEM.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def split_body(raw: msgspec.Raw) -> tuple[bytes, msgspec.Raw]:
    """Split an item of a batch into the unchanged bytes of `body` and its other fields."""
    try:
        fields = _OBJECT.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid_fields(FieldError("item", f"an object: {error}")) from None
    body = fields.pop("body", msgspec.Raw(b"null"))
    return bytes(body), msgspec.Raw(msgspec.json.encode(fields))


class JsonResponse(Response):
    """A JSON response. Starlette would spend as much time on its two headers as on the JSON."""

    def __init__(
        self, raw: bytes, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self.body = raw
        self.status_code = status
        self.background = None
        self.raw_headers = [
            (b"content-length", b"%d" % len(raw)),
            (b"content-type", _CONTENT_TYPE),
        ]
        if headers:
            self.headers.update(headers)


def json_response(
    document: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return JsonResponse(msgspec.json.encode(document), status, headers)


def _malformed(detail: str) -> ProblemError:
    return problem_error(400, "malformed_json", detail)
