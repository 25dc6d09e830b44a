"""A bare Serve deployment: parse a small JSON, answer JSON. What Serve itself costs.

A class with `__call__` is Serve's plainest form and was the fastest: FastAPI and Starlette apps
took 1.2 to 1.5 times the CPU of it.
"""

import orjson
from starlette.requests import Request
from starlette.responses import Response

PATH = "/callbacks"
EXPECTED = b'"echo"'


class Echo:
    """Answers what it was sent."""

    async def __call__(self, request: Request) -> Response:
        """Parse and answer."""
        document = orjson.loads(await request.body() or b"null")
        return Response(orjson.dumps({"echo": document}), media_type="application/json")
