"""Headers of a delivery that come from elsewhere: what may be set, and how it is made safe."""

import base64
import re
from collections.abc import Mapping
from urllib.parse import quote

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
# Set by Muster, or the affair of one connection only.
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
# CloudEvents, HTTP binding, 3.1.3.2: all but what is printable, without the space, " and %.
_UNSAFE_FACT = re.compile(r"[^\x21\x23\x24\x26-\x7e]+")
_SAFE_FACTS = re.compile(r"[\x21\x23\x24\x26-\x7e]*")
_UNSAFE_VALUE = re.compile(r"[^\x20-\x7e]+")


def is_settable(name: str) -> bool:
    """Whether a header of this name may be added to deliveries."""
    lower = name.lower()
    return bool(_TOKEN.fullmatch(name)) and not (lower in _OURS or lower.startswith(_OUR_PREFIXES))


def encode_header_value(text: str) -> str:
    """Any text as the value of a header, as CloudEvents has it: the rest percent-encoded."""
    return _UNSAFE_FACT.sub(_percent, text)


def encode_header_values(texts: Mapping[str, str | None], longest: int) -> dict[str, str]:
    """Those that there are and that are not longer than this as values of headers."""
    given = {name: text for name, text in texts.items() if text is not None}
    together = "".join(given.values())
    if len(together) <= longest and _SAFE_FACTS.fullmatch(together):
        return given  # as almost always; one look at all is much cheaper than one at each
    return {
        name: value for name in given if len(value := encode_header_value(given[name])) <= longest
    }


def plain_header_value(text: str) -> str:
    """A value as somebody wrote it, without what would end it."""
    return _UNSAFE_VALUE.sub(_percent, text)


def settable_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Those of somebody's headers that may be set. Of two that differ in case the last is kept."""
    kept = {name.lower(): (name, value) for name, value in headers.items() if is_settable(name)}
    return {name: plain_header_value(value) for name, value in kept.values()}


def authorization_header(auth: Mapping[str, str] | None) -> str | None:
    """What is shown to a receiver that wants to know who calls."""
    match auth:
        case {"type": "bearer", "token": str(token)}:
            return plain_header_value(f"Bearer {token}")
        case {"type": "basic", "username": str(username), "password": str(password)}:
            return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
        case _:
            return None


def custom_headers(headers: Mapping[str, str], auth: Mapping[str, str] | None) -> dict[str, str]:
    """Somebody's headers and what shows who calls: the latter stands above the former."""
    shown = authorization_header(auth)
    if not headers and shown is None:
        return {}
    kept = settable_headers(headers)
    return kept if shown is None else merge_headers(kept, {"Authorization": shown})


def merge_headers(below: Mapping[str, str], above: Mapping[str, str]) -> dict[str, str]:
    """Both, where those above replace those below in whatever case they are written."""
    named = {name.lower() for name in above}
    return {name: value for name, value in below.items() if name.lower() not in named} | dict(above)


def _percent(found: re.Match[str]) -> str:
    # Half a surrogate pair is no character, and cannot be encoded.
    return quote(found[0], safe="", errors="replace")
