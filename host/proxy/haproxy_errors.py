"""The problem documents that HAProxy returns when no replica answers."""

import json
from http import HTTPStatus
from pathlib import Path

# Without this deadline for headers, a few thousand silent clients would occupy every connection for
# an hour.
HEADER_TIMEOUT_SECONDS = 15
RETRY_AFTER = 1
# Ray turns these into a bare 500, which clients do not retry. (HAProxy answers input that is not
# HTTP with its built-in page before it reads these rules.)
STATUSES = (502, 503, 504)


def write_error_files(folder: Path) -> list[str]:
    """Write the responses; return the lines for HAProxy's defaults that name them."""
    away = _write(
        folder / "unavailable.http",
        _document(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "unavailable",
            "no replica answered; the request may or may not have been taken",
        ),
        f"Retry-After: {RETRY_AFTER}",
    )
    late = _write(
        folder / "late.http",
        _document(
            HTTPStatus.REQUEST_TIMEOUT,
            "request_timeout",
            "the request did not come as a whole in time; send it again, faster",
        ),
        "Connection: close",
    )
    return [
        f"timeout http-request {HEADER_TIMEOUT_SECONDS}s",
        # A connection that was opened in advance and never used is closed without a response.
        "option http-ignore-probes",
        *(f"errorfile {status} {away}" for status in STATUSES),
        f"errorfile {HTTPStatus.REQUEST_TIMEOUT.value} {late}",
    ]


def _document(status: HTTPStatus, code: str, detail: str) -> dict[str, str | int]:
    return {
        "type": f"urn:muster:problem:{code}",
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
        "code": code,
    }


def _write(file: Path, document: dict[str, str | int], header: str) -> Path:
    body = json.dumps(document, separators=(",", ":"))
    head = (
        f"HTTP/1.1 {document['status']} {document['title']}",
        "Content-Type: application/problem+json",
        f"Content-Length: {len(body)}",
        header,
        "Cache-Control: no-store",
    )
    file.write_bytes("\r\n".join([*head, "", body]).encode("ascii"))
    return file
