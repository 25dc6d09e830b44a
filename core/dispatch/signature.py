"""Signatures of deliveries and the secrets for them."""

import base64
import binascii
import hashlib
from collections.abc import Sequence
from functools import lru_cache

from core.dispatch.sent_at import to_millis

PREFIX = "whsec_"
_BLOCK = 64
_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


def sign_standard(
    secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """Return the headers of Standard Webhooks, with one signature for each secret."""
    headers = {"webhook-id": message_id, "webhook-timestamp": str(timestamp)}
    if secrets:
        signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
        headers["webhook-signature"] = " ".join(
            ["v1," + _base64(_hmac(secret, signed)) for secret in secrets]
        )
    return headers


def sign_classic(secrets: Sequence[bytes], timestamp: float, body: bytes) -> dict[str, str]:
    """Return the headers of the classic signature: one hash of the time and the body.

    Only one secret can sign. The oldest does, so that during a rotation the receiver has time to
    configure the new secret.
    """
    at = to_millis(timestamp)
    headers = {"X-FLOWCATALYST-TIMESTAMP": at}
    if secrets:
        headers["X-FLOWCATALYST-SIGNATURE"] = _hmac(secrets[-1], at.encode() + body).hex()
    return headers


def format_secret(secret: bytes) -> str:
    """Write a secret in the format of Standard Webhooks."""
    return PREFIX + _base64(secret)


def parse_secret(text: str) -> bytes:
    """Read a secret in the format of Standard Webhooks.

    Raises:
        ValueError: The text is not in this format.
    """
    if not text.startswith(PREFIX):
        raise ValueError(f"a secret begins with {PREFIX}")
    try:
        return base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"a secret is {PREFIX} and base64") from None


def _base64(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).decode()


def _hmac(secret: bytes, message: bytes) -> bytes:
    """Compute HMAC-SHA256; unlike `hmac`, hash each secret only once, which saves most time."""
    inner, outer = _started(secret)
    inner, outer = inner.copy(), outer.copy()
    inner.update(message)
    outer.update(inner.digest())
    return outer.digest()


@lru_cache(4_096)
def _started(secret: bytes) -> tuple["hashlib._Hash", "hashlib._Hash"]:
    key = hashlib.sha256(secret).digest() if len(secret) > _BLOCK else secret
    key = key.ljust(_BLOCK, b"\0")
    return hashlib.sha256(key.translate(_INNER)), hashlib.sha256(key.translate(_OUTER))
