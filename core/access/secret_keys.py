"""Keys that secrets are encrypted under: how they are written down, and what they are called."""

import base64
import hashlib
from collections.abc import Iterable

KEY_SIZE = 32
ID_BYTES = 8


def key_id(key: bytes) -> str:
    """Return what a key is called: the first bytes of its digest, which say nothing of it."""
    return hashlib.sha256(key).hexdigest()[: 2 * ID_BYTES]


def format_key(key: bytes) -> str:
    """Write a key down as `parse_keys` reads it."""
    return base64.b64encode(key).decode()


def parse_keys(texts: Iterable[str]) -> tuple[bytes, ...]:
    """Read keys, each base64 of 32 bytes.

    Raises:
        ValueError: There is none, one is no key, or one is named twice. No message repeats a key.
    """
    try:
        keys = tuple(base64.b64decode(text.strip(), validate=True) for text in texts)
    except ValueError:  # no base64, or no ASCII
        keys = ()
    if not keys or any(len(key) != KEY_SIZE for key in keys):
        raise ValueError(
            "must be base64 of 32 bytes, or several with commas between: "
            "`openssl rand -base64 32` makes one"
        )
    if len(set(keys)) != len(keys):
        raise ValueError("must not name a key twice")
    return keys
