"""The OpenAPI document, and the pages at /docs and /gather, which load only this server's files."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from serve_app.http.json_io import json_response

router = APIRouter(include_in_schema=False)

_FOLDER = Path(__file__).parents[1] / "pages"
# Only scripts and styles in files of this server, and no frames. The limits middleware adds
# X-Content-Type-Options to every response.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_PAGES = ("docs", "gather")


@router.get("/openapi.json")
async def show_openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    return json_response(request.app.openapi())


def _shown(file: Path) -> Callable[[], Awaitable[Response]]:
    content, kind = file.read_bytes(), _KINDS[file.suffix]

    async def show() -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    return show


for _page in _PAGES:
    for _suffix in _KINDS:
        _path = f"/{_page}" if _suffix == ".html" else f"/{_page}{_suffix}"
        router.get(_path)(_shown(_FOLDER / f"{_page}{_suffix}"))
