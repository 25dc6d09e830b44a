"""Secrets at rest: AES-256-GCM, each value bound to its tenant, table, row and column.

A value is stored as text, `enc:1:KEY:DATA`: the version of the format, the id of the key, and the
base64 of nonce, ciphertext and tag. Other values were stored before encryption existed.
"""

import binascii
import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from core.access.secret_keys import ID_BYTES, key_id
from core.records.validation import CIPHERTEXT_PREFIX
from core.shared.config import Config
from core.shared.errors import MusterError, UnavailableError
from storage.encryption import key_file

PREFIX = CIPHERTEXT_PREFIX
NONCE_SIZE, TAG_SIZE = 12, 16
SETTING = "MUSTER_SECRET_KEY"
RETRY_AFTER = 60
_KEY_ID = re.compile(f"[0-9a-f]{{{2 * ID_BYTES}}}")


class MissingKeyError(UnavailableError):
    """A value is encrypted under a key that this process lacks."""


class DamagedSecretError(MusterError):
    """A value cannot be decrypted: it was changed, or moved from another row."""


ENCRYPTION_ERRORS = (MissingKeyError, DamagedSecretError)


@dataclass(frozen=True, slots=True)
class Location:
    """Where a secret is stored. A ciphertext is useless anywhere else."""

    tenant: int
    table: str
    row: str
    column: str

    @property
    def associated_data(self) -> bytes:
        """Return what the tag covers besides the ciphertext. Lengths keep the parts apart."""
        parts = (str(self.tenant), self.table, self.row, self.column)
        return b"".join(b"%d:%b" % (len(raw), raw) for raw in map(str.encode, parts))

    def __str__(self) -> str:
        """Leave out the id of the row, which may be a tenant's text."""
        return f"{self.table}.{self.column} of tenant {self.tenant}"


class FileKeys:
    """The keys of a file, read again when the file is replaced."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, ...] | None = None
        self._keys: tuple[bytes, ...] = ()

    def __call__(self) -> tuple[bytes, ...]:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            raise MissingKeyError(
                f"the key file {self._path} is gone: put it back, or set {SETTING}", RETRY_AFTER
            ) from None
        seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        if seen != self._seen:
            self._keys = key_file.read(self._path)
            self._seen = seen
        return self._keys


class KeyRing:
    """Encrypts with its first key; decrypts with any."""

    def __init__(self, read_keys: Callable[[], tuple[bytes, ...]]) -> None:
        self._read_keys = read_keys
        self._keys: tuple[bytes, ...] = ()
        self._ciphers: dict[str, AESGCM] = {}
        self._refresh()

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Return the ids of the keys; the first one encrypts."""
        self._refresh()
        return tuple(self._ciphers)

    @property
    def current(self) -> str:
        return self.key_ids[0]

    def encrypt(self, plain: bytes, location: Location) -> str:
        name = self.current
        nonce = os.urandom(NONCE_SIZE)
        data = nonce + self._ciphers[name].encrypt(nonce, plain, location.associated_data)
        return f"{PREFIX}{name}:{binascii.b2a_base64(data, newline=False).decode()}"

    def decrypt(self, text: str, location: Location) -> bytes:
        """Decrypt a value that was encrypted for this location.

        Raises:
            MissingKeyError: The key is not in the ring.
            DamagedSecretError: The value was changed, or encrypted for another location.
        """
        name, data = _parse(text, location)
        cipher = self._ciphers.get(name)
        if cipher is None:
            self._refresh()
            cipher = self._ciphers.get(name)
        if cipher is None:
            raise MissingKeyError(
                f"{location} is encrypted under key {name}, which this instance does not have: "
                f"add that key to {SETTING} or to the key file",
                RETRY_AFTER,
            )
        try:
            return cipher.decrypt(data[:NONCE_SIZE], data[NONCE_SIZE:], location.associated_data)
        except InvalidTag:
            raise DamagedSecretError(
                f"{location} cannot be decrypted with key {name}, which encrypted it: it was "
                "changed or comes from another row; set it anew"
            ) from None

    def _refresh(self) -> None:
        keys = self._read_keys()
        if keys != self._keys:
            self._keys = keys
            self._ciphers = {key_id(key): AESGCM(key) for key in keys}


def is_encrypted(text: str | bytes) -> bool:
    """Return True if a stored value is encrypted, False if it is plain."""
    if isinstance(text, str):
        return text.startswith(PREFIX)
    return text.startswith(PREFIX.encode())


def key_id_of(text: str) -> str | None:
    """Return the id of the key that encrypted a stored value; None if it is plain."""
    return text.split(":", 3)[2] if is_encrypted(text) else None


def is_ciphertext(text: str) -> bool:
    """Return whether a text has the form of an encrypted value; only its key can tell if it is."""
    if not is_encrypted(text):
        return False
    name, data = _split(text)
    return len(data) >= NONCE_SIZE + TAG_SIZE and _KEY_ID.fullmatch(name) is not None


def _parse(text: str, location: Location) -> tuple[str, bytes]:
    name, data = _split(text)
    if len(data) < NONCE_SIZE + TAG_SIZE:
        raise DamagedSecretError(f"{location} is cut short or damaged: set it anew")
    return name, data


def _split(text: str) -> tuple[str, bytes]:
    """Return the id of the key, and what is encrypted: nothing if it is not base64."""
    parts = text.split(":", 3)
    try:
        return parts[2], binascii.a2b_base64(parts[3], strict_mode=True)
    except (ValueError, IndexError):
        return parts[2], b""


class _Installed:
    ring: KeyRing | None = None


def install(ring: KeyRing) -> None:
    """Let this process encrypt and decrypt with these keys."""
    _Installed.ring = ring


def configure(config: Config) -> None:
    """Install the keys of a configuration, if it has any."""
    if config.secret_keys:
        install(KeyRing(lambda: config.secret_keys))
    elif config.secret_key_file is not None:
        install(KeyRing(FileKeys(config.secret_key_file)))


def key_ring() -> KeyRing:
    if _Installed.ring is None:
        raise MissingKeyError(f"this process has no key for secrets: set {SETTING}", RETRY_AFTER)
    return _Installed.ring
