"""A request's headers as a plain map: read on the hot path several times, decoded once."""

from fastapi import Request
from starlette.types import Scope

_DECODED = "muster.headers"


def headers_of(request: Request) -> dict[str, str]:
    """Header name in lower case → value; of a repeated header the last."""
    return headers_of_scope(request.scope)


def headers_of_scope(scope: Scope) -> dict[str, str]:
    """The same, before there is a request."""
    known: dict[str, str] | None = scope.get(_DECODED)
    if known is None:
        pairs = scope["headers"]
        try:
            known = {name.decode("latin-1"): value.decode() for name, value in pairs}
        except UnicodeDecodeError:
            known = {name.decode("latin-1"): _text(value) for name, value in pairs}
        scope[_DECODED] = known
    return known


def _text(value: bytes) -> str:
    """Ids may hold letters beyond ASCII; senders write those as UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
