"""The key file of a one-machine instance: base64 keys, one per line; the first one encrypts."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from core.access.secret_keys import KEY_SIZE, format_key, parse_keys
from core.shared.errors import MusterError


class KeyFileError(MusterError):
    """The key file cannot be used; the message is one sentence for a person."""


def ensure(path: Path) -> bool:
    """Create the file with a new key if it is missing; return True if it was created."""
    if path.exists():
        read(path)
        return False
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write(path, [secrets.token_bytes(KEY_SIZE)])
    return True


def read(path: str | Path) -> tuple[bytes, ...]:
    """Read the keys; refuse a file that others can read."""
    path = Path(path)
    try:
        if path.stat().st_mode & 0o077:
            raise KeyFileError(f"{path} can be read by others: run chmod 600 on it")
        return parse_keys(path.read_text(encoding="ascii").split())
    except OSError as error:
        raise KeyFileError(f"cannot read the key file {path}: {error.strerror}") from None
    except ValueError:
        raise KeyFileError(
            f"{path} is no key file (base64 of 32 bytes a line): restore it"
        ) from None


def write(path: Path, keys: Sequence[bytes]) -> None:
    write_private(path, "".join(f"{format_key(key)}\n" for key in keys))


def write_private(path: Path, text: str) -> None:
    """Replace a file that only its owner can read; a reader or a crash sees the old or the new."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        # Without fsync, a power cut could lose a key that secrets are already encrypted under.
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
