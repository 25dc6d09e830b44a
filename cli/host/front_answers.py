"""What HAProxy answers by itself when no replica does: the same problem document as ours."""

import json
from http import HTTPStatus
from pathlib import Path

# Headers that take longer than this are not coming; without it a few thousand silent clients
# would hold every connection for an hour.
PATIENCE = 15
RETRY_AFTER = 1
# Ray turns these into a bare 500, which no client tries again. (What is not HTTP at all is
# answered before HAProxy reads any of this, with a page of its own.)
STATUSES = (502, 503, 504)

_DOCUMENT = {
    "type": "urn:muster:problem:unavailable",
    "title": HTTPStatus.SERVICE_UNAVAILABLE.phrase,
    "status": HTTPStatus.SERVICE_UNAVAILABLE.value,
    "detail": "no replica answered; the request may or may not have been taken",
    "code": "unavailable",
}


def write_answers(folder: Path) -> list[str]:
    """Write the answer; the lines for HAProxy's defaults that name it."""
    body = json.dumps(_DOCUMENT, separators=(",", ":"))
    head = (
        f"HTTP/1.1 {HTTPStatus.SERVICE_UNAVAILABLE} {HTTPStatus.SERVICE_UNAVAILABLE.phrase}",
        "Content-Type: application/problem+json",
        f"Content-Length: {len(body)}",
        f"Retry-After: {RETRY_AFTER}",
        "Cache-Control: no-store",
    )
    file = folder / "unavailable.http"
    file.write_bytes("\r\n".join([*head, "", body]).encode("ascii"))
    return [
        f"timeout http-request {PATIENCE}s",
        # A connection opened in advance and never used is closed without a word.
        "option http-ignore-probes",
        *(f"errorfile {status} {file}" for status in STATUSES),
    ]
