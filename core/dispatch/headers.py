"""Custom headers of deliveries: which names are allowed, and how values are encoded."""

import base64
import re
from collections.abc import Mapping
from urllib.parse import quote

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
# Muster sets these headers, or they concern one connection only.
_OURS = frozenset(
    {
        "host",
        "content-length",
        "content-type",
        "content-encoding",
        "idempotency-key",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "http2-settings",
        "expect",
    }
)
_OUR_PREFIXES = ("webhook-", "ce-", "x-muster-", "x-flowcatalyst-", "proxy-")
# CloudEvents HTTP binding 3.1.3.2: encode space, ", % and all that is not printable ASCII.
_UNSAFE_FACT = re.compile(r"[^\x21\x23\x24\x26-\x7e]+")
_SAFE_FACTS = re.compile(r"[\x21\x23\x24\x26-\x7e]*")
_UNSAFE_VALUE = re.compile(r"[^\x20-\x7e]+")


def is_settable(name: str) -> bool:
    """Return whether a header of this name may be added to deliveries."""
    lower = name.lower()
    return bool(_TOKEN.fullmatch(name)) and not (lower in _OURS or lower.startswith(_OUR_PREFIXES))


def encode_header_value(text: str) -> str:
    """Percent-encode a text for a header, as CloudEvents specifies."""
    return _UNSAFE_FACT.sub(_percent, text)


def encode_header_values(texts: Mapping[str, str | None], longest: int) -> dict[str, str]:
    """Encode header values; leave out None and values longer than `longest`."""
    given = {name: text for name, text in texts.items() if text is not None}
    together = "".join(given.values())
    if len(together) <= longest and _SAFE_FACTS.fullmatch(together):
        return given  # the usual case: one check of all values is cheaper than one of each
    return {
        name: value for name in given if len(value := encode_header_value(given[name])) <= longest
    }


def plain_header_value(text: str) -> str:
    """Percent-encode only the characters that no header may contain."""
    return _UNSAFE_VALUE.sub(_percent, text)


def settable_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the allowed headers. Of names that differ only in case, the last is kept."""
    kept = {name.lower(): (name, value) for name, value in headers.items() if is_settable(name)}
    return {name: plain_header_value(value) for name, value in kept.values()}


def authorization_header(auth: Mapping[str, str] | None) -> str | None:
    """Return the value of the Authorization header, or None."""
    match auth:
        case {"type": "bearer", "token": str(token)}:
            return plain_header_value(f"Bearer {token}")
        case {"type": "basic", "username": str(username), "password": str(password)}:
            return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
        case _:
            return None


def custom_headers(headers: Mapping[str, str], auth: Mapping[str, str] | None) -> dict[str, str]:
    """Return the allowed headers with the authorization, which takes precedence."""
    shown = authorization_header(auth)
    if not headers and shown is None:
        return {}
    kept = settable_headers(headers)
    return kept if shown is None else merge_headers(kept, {"Authorization": shown})


def merge_headers(below: Mapping[str, str], above: Mapping[str, str]) -> dict[str, str]:
    """Merge headers; `above` replaces headers of `below` whose names differ only in case."""
    named = {name.lower() for name in above}
    return {name: value for name, value in below.items() if name.lower() not in named} | dict(above)


def _percent(found: re.Match[str]) -> str:
    # A lone surrogate cannot be encoded.
    return quote(found[0], safe="", errors="replace")
