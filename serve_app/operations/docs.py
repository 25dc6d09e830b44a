"""The OpenAPI document; the page at /docs (pages.py) shows it."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from serve_app.http.json_io import json_response

router = APIRouter(include_in_schema=False)


@router.get("/openapi.json")
async def show_openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    return json_response(request.app.openapi())
