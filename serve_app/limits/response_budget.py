"""Large answers, sent no faster than they are read, and counted until they are.

What is written to a connection that nobody reads stays in this process. So a large answer goes out
in pieces, each once the one before has left, and its request is over when the last has.
"""

from starlette.types import Message, Send

RESPONSE_START, RESPONSE_BODY = "http.response.start", "http.response.body"
CHUNK_BYTES = 65_536
"""Bytes that a connection takes without being asked whether they are read; uvicorn's own mark."""
_LENGTH = b"content-length"


def content_length_of(start: Message) -> int:
    """How large the answer is that begins so; 0 where it does not say."""
    for name, value in start["headers"]:
        if name == _LENGTH:
            return int(value)
    return 0


def send_in_chunks(send: Send) -> Send:
    """Send bodies piece by piece: before each, the server waits until the last is on its way."""

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
    """Send nothing: something else was answered."""
