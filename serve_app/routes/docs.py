"""The OpenAPI document, and a page that shows it without fetching anything from elsewhere."""

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from serve_app.docs_page import PAGE
from serve_app.documents import answer

router = APIRouter(include_in_schema=False)

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
}


@router.get("/openapi.json")
async def show_openapi(request: Request) -> Response:
    """The document."""
    return answer(request.app.openapi())


@router.get("/docs")
async def show_docs() -> Response:
    """The page."""
    return HTMLResponse(PAGE, headers=_HEADERS)
