"""Server-sent events on the wire."""

import contextlib
import re
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Send

MEDIA_TYPE = "text/event-stream"
HEARTBEAT_FRAME = b": beat\n\n"
OPENING_FRAME = b"retry: 1000\n\n"
FROM_START = -1
_LINE_END = re.compile(rb"\r\n|\r|\n")


def frame(kind: str, number: int, document: Any) -> bytes:
    """One event. Stored JSON may stand on several lines; each gets its own `data:`."""
    data = msgspec.json.encode(document)
    if b"\n" in data or b"\r" in data:  # rare, and to look costs far less than to replace
        data = _LINE_END.sub(b"\ndata: ", data)
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, kind.encode(), data)


class EventStream(StreamingResponse):
    """Closes its generator in any case: a client that vanished must not stay a watcher."""

    def __init__(self, frames: AsyncGenerator[bytes]) -> None:
        super().__init__(
            frames,
            media_type=MEDIA_TYPE,
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
        self._frames = frames

    async def stream_response(self, send: Send) -> None:
        """Send all frames."""
        async with contextlib.aclosing(self._frames):
            await super().stream_response(send)
