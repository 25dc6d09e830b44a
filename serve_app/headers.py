"""A request's headers as a plain map: read on the hot path several times, decoded once."""

from fastapi import Request

_DECODED = "muster.headers"


def headers_of(request: Request) -> dict[str, str]:
    """Header name in lower case → value; of a repeated header the last."""
    known: dict[str, str] | None = request.scope.get(_DECODED)
    if known is None:
        pairs = request.scope["headers"]
        known = {name.decode("latin-1"): _text(value) for name, value in pairs}
        request.scope[_DECODED] = known
    return known


def _text(value: bytes) -> str:
    """Ids may hold letters beyond ASCII; senders write those as UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
