"""Signed callback tokens: proof that the holder may answer one correlation, and no other."""

import base64
import binascii
import hashlib
import hmac

import msgspec

from core.address import Address


class _Claims(msgspec.Struct, frozen=True, array_like=True):
    address: Address
    expires_at: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Claims)
_SIGNATURE = 16


def sign(address: Address, expires_at: float, secret: bytes) -> str:
    """A token for this address that ends at `expires_at`."""
    claims = _encoder.encode(_Claims(address, int(expires_at)))
    return base64.urlsafe_b64encode(_mac(claims, secret) + claims).rstrip(b"=").decode()


def verify(token: str, now: float, secrets: list[bytes]) -> Address | None:
    """The address a token speaks for, or None if it is forged, broken or over."""
    try:
        raw = base64.b64decode(token.encode() + b"=" * (-len(token) % 4), b"-_", validate=True)
        claims = _decoder.decode(raw[_SIGNATURE:])
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        return None
    genuine = any(
        hmac.compare_digest(raw[:_SIGNATURE], _mac(raw[_SIGNATURE:], secret)) for secret in secrets
    )
    return claims.address if genuine and now < claims.expires_at else None


def _mac(claims: bytes, secret: bytes) -> bytes:
    return hmac.digest(secret, b"muster-callback\x00" + claims, hashlib.sha256)[:_SIGNATURE]
