"""What proves to a receiver who sent a delivery and that it is as it was sent."""

import base64
import binascii
import hmac
from collections.abc import Sequence
from datetime import UTC, datetime

PREFIX = "whsec_"


def sign_standard(
    secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """The headers of Standard Webhooks, with a signature by each secret: any of them verifies."""
    headers = {"webhook-id": message_id, "webhook-timestamp": str(timestamp)}
    if secrets:
        signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
        headers["webhook-signature"] = " ".join(
            ["v1," + _base64(hmac.digest(secret, signed, "sha256")) for secret in secrets]
        )
    return headers


def sign_classic(secrets: Sequence[bytes], timestamp: float, body: bytes) -> dict[str, str]:
    """One hash in one header, over the time and the body. There is room for the newest secret."""
    at = to_millis(timestamp)
    headers = {"X-FLOWCATALYST-TIMESTAMP": at}
    if secrets:
        digest = hmac.digest(secrets[0], at.encode() + body, "sha256")
        headers["X-FLOWCATALYST-SIGNATURE"] = digest.hex()
    return headers


def to_millis(at: float) -> str:
    """An instant in ISO 8601, in UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def show_secret(secret: bytes) -> str:
    """A secret as people and libraries read it."""
    return PREFIX + _base64(secret)


def read_secret(text: str) -> bytes:
    """And back.

    Raises:
        ValueError: It is not written so.
    """
    if not text.startswith(PREFIX):
        raise ValueError(f"a secret begins with {PREFIX}")
    try:
        return base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"a secret is {PREFIX} and base64") from None


def _base64(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).decode()
