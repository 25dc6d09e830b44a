"""Verifies a Standard Webhooks signature as a receiver does.

Written from the specification and not from our signing, so that the demo checks what others see.
"""

import base64
import hmac
from collections.abc import Mapping

TOLERANCE = 300.0
"""Seconds that a delivery may be older or newer than the receiver's clock."""
_PREFIX = "whsec_"


def is_signed_by(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Return True if one of the signatures was made with this secret, and not too long ago."""
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not message_id or not timestamp.isdecimal() or abs(now - int(timestamp)) > TOLERANCE:
        return False
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    signed = b".".join([message_id.encode(), timestamp.encode(), body])
    expected = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(one, f"v1,{expected}") for one in given)
