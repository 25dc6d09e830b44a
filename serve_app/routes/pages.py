"""The page at /gather: three files that a browser fetches from here, and nothing from elsewhere."""

from pathlib import Path

from fastapi import APIRouter
from starlette.responses import Response

router = APIRouter(include_in_schema=False)

_FOLDER = Path(__file__).parents[1] / "pages"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_PAGE, _SCRIPT, _STYLE = (
    (_FOLDER / name).read_bytes() for name in ("gather.html", "gather.js", "gather.css")
)


@router.get("/gather")
async def show_gather() -> Response:
    """The page."""
    return Response(_PAGE, media_type="text/html", headers=_HEADERS)


@router.get("/gather.js")
async def show_gather_script() -> Response:
    """What it does."""
    return Response(_SCRIPT, media_type="text/javascript", headers=_HEADERS)


@router.get("/gather.css")
async def show_gather_style() -> Response:
    """How it looks."""
    return Response(_STYLE, media_type="text/css", headers=_HEADERS)
