"""Server-sent events: frames, cursors and responses."""

import contextlib
import re
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import msgspec
from fastapi import Header, Query
from starlette.responses import StreamingResponse
from starlette.types import Send

MEDIA_TYPE = "text/event-stream"
HEARTBEAT_FRAME = b": beat\n\n"
OPENING_FRAME = b"retry: 1000\n\n"
FROM_START = -1
LastEventId = Annotated[int | None, Query(alias="lastEventId", ge=0, lt=2**31)]
LastEventIdHeader = Annotated[int | None, Header(alias="Last-Event-ID", ge=0, lt=2**31)]
_LINE_END = re.compile(rb"\r\n|\r|\n")


def cursor_of(header: int | None, parameter: int | None) -> int:
    """Return the cursor of a reader; the header takes precedence over the parameter."""
    given = parameter if header is None else header
    return FROM_START if given is None else given


def frame(kind: str, number: int, document: Any) -> bytes:
    """Make the frame of one event. Each line of stored JSON needs a `data:` field."""
    data = msgspec.json.encode(document)
    if b"\n" in data or b"\r" in data:  # rare, and a search is much cheaper than a replacement
        data = _LINE_END.sub(b"\ndata: ", data)
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, kind.encode(), data)


class EventStream(StreamingResponse):
    """Closes its generator in any case, so that a disconnected client is no longer a reader."""

    def __init__(self, frames: AsyncGenerator[bytes]) -> None:
        super().__init__(
            frames,
            media_type=MEDIA_TYPE,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
        self._frames = frames

    async def stream_response(self, send: Send) -> None:
        async with contextlib.aclosing(self._frames):
            await super().stream_response(send)
