"""Signed tokens: each allows one action on one correlation."""

import base64
import hashlib
import hmac
import math
from typing import NamedTuple

import msgspec

from core.shared.address import Address
from core.shared.errors import Denial

TOKEN_SCOPE = Denial("token_scope")
"""The token does not allow the request."""


class TokenHolder(NamedTuple):
    """The correlation of a token; with a `source`, the token is valid for that source only."""

    address: Address
    source: str = ""


class _Claims(msgspec.Struct, frozen=True, array_like=True):
    address: tuple[int, str, str]
    expires_at: int
    source: str = ""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Claims)
_SIGNATURE = 16

# The purposes of tokens.
CALLBACK = "callback"
STREAM = "stream"


def sign(
    address: Address,
    expires_at: float,
    secret: bytes,
    purpose: str = CALLBACK,
    source: str = "",
) -> str:
    named = (address.tenant, address.execution_id, address.correlation_id)
    claims = _encoder.encode((named, math.ceil(expires_at), *([source] if source else [])))
    return base64.urlsafe_b64encode(_mac(claims, secret, purpose) + claims).rstrip(b"=").decode()


def verify(
    token: str, now: float, secrets: list[bytes], purpose: str = CALLBACK
) -> TokenHolder | None:
    """Return the holder of a token, or None if it is forged, malformed or expired."""
    try:
        raw = base64.b64decode(token.encode() + b"=" * (-len(token) % 4), b"-_", validate=True)
    except ValueError:
        return None
    signature, signed = raw[:_SIGNATURE], raw[_SIGNATURE:]
    # No token is decoded before its signature is verified.
    if not any(hmac.compare_digest(signature, _mac(signed, s, purpose)) for s in secrets):
        return None
    claims = _decoder.decode(signed)
    if now >= claims.expires_at:
        return None
    return TokenHolder(Address(*claims.address), claims.source)


def _mac(claims: bytes, secret: bytes, purpose: str) -> bytes:
    signed = f"muster-{purpose}\x00".encode() + claims
    return hmac.digest(secret, signed, hashlib.sha256)[:_SIGNATURE]
