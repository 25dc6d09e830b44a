"""The instance that a command talks to, and the key it sends."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from cli.shell.errors import CommandError, InputError

DEFAULT_URL = "http://127.0.0.1:8000"
INSTANCE_FILE = "instance.json"
KEY_FILE = "admin.key"
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True, slots=True)
class Instance:
    """An address and the key for it."""

    url: str
    key: str | None = field(default=None, repr=False)

    @property
    def is_local(self) -> bool:
        """Return whether requests stay on this machine, so that no proxy may carry them."""
        return urlsplit(self.url).hostname in _LOOPBACK


def find_instance(url: str | None, key: str | None, data_dir: Path) -> Instance:
    """Find the instance by what was given, then by the data folder of a local instance.

    The admin key in the folder is sent only to the address in the folder. A key that was given is
    not sent to an address that only the folder names, because anybody may have written the folder.
    """
    local = _local_url(data_dir)
    chosen = _checked(url) if url else local or DEFAULT_URL
    if key is None and chosen == local:
        key = _local_key(data_dir)
    elif key and not url and local and key.strip() != _local_key(data_dir):
        raise CommandError(
            f"Your key is not sent to {local}, which only {data_dir / INSTANCE_FILE} names: add "
            f"--url {local} or MUSTER_URL if the key is for that address, or leave out MUSTER_KEY "
            "and --key to use the key in the folder."
        )
    return Instance(chosen, _printable(key) if key else None)


def _local_url(data_dir: Path) -> str | None:
    path = data_dir / INSTANCE_FILE
    try:
        return _checked(str(json.loads(path.read_bytes())["url"]))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandError(f"Cannot read {path}: {error.strerror}.") from error
    except (InputError, ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{path} is damaged: give the address with --url.") from error


def _local_key(data_dir: Path) -> str | None:
    path = data_dir / KEY_FILE
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"Cannot read the key in {path}: give one with --key.") from error


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        well_formed = parts.scheme in {"http", "https"} and bool(parts.hostname)
        well_formed = well_formed and (parts.port is None or parts.port > 0)
    except ValueError:
        well_formed = False
    if not well_formed:
        raise InputError(f"'{url}' is not an address: write for example {DEFAULT_URL}.")
    return url.rstrip("/")


def _printable(key: str) -> str:
    if not key.isascii() or not key.isprintable():
        raise InputError("The key is malformed: keys are printable ASCII, as in mk_3f9ac1d2_….")
    return key
