"""Large responses, sent no faster than the client reads and counted until it has read them.

Bytes written to a connection that nobody reads stay in memory. So a large response is sent in
chunks, each after the one before has left, and its request ends when the last has left.
"""

from starlette.types import Message, Send

RESPONSE_START, RESPONSE_BODY = "http.response.start", "http.response.body"
CHUNK_BYTES = 65_536
"""Bytes that uvicorn buffers for a connection before it waits for the client to read."""
_LENGTH = b"content-length"


def content_length_of(start: Message) -> int:
    """Return the Content-Length of a response; 0 if it has none."""
    for name, value in start["headers"]:
        if name == _LENGTH:
            return int(value)
    return 0


def send_in_chunks(send: Send) -> Send:
    """Send bodies in chunks: before each, the server waits until the last one has left."""

    async def send_piece_by_piece(message: Message) -> None:
        body, at = message.get("body", b""), 0
        while len(body) - at > CHUNK_BYTES:
            await send(
                {"type": RESPONSE_BODY, "body": body[at : at + CHUNK_BYTES], "more_body": True}
            )
            at += CHUNK_BYTES
        await send({**message, "body": body[at:]} if at else message)

    return send_piece_by_piece


async def discard(_: Message) -> None:
    """Send nothing, because another response was sent."""
