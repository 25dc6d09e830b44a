"""The format and the ids of the keys that encrypt secrets."""

import base64
import hashlib
from collections.abc import Iterable

KEY_SIZE = 32
ID_BYTES = 8


def key_id(key: bytes) -> str:
    """Return the id of a key: the first bytes of its digest, which do not reveal the key."""
    return hashlib.sha256(key).hexdigest()[: 2 * ID_BYTES]


def format_key(key: bytes) -> str:
    """Write a key in the format of `parse_keys`."""
    return base64.b64encode(key).decode()


def parse_keys(texts: Iterable[str]) -> tuple[bytes, ...]:
    """Read keys, each base64 of 32 bytes.

    Raises:
        ValueError: There is no key, a key is invalid or repeated. The message contains no key.
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
