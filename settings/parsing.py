"""What the texts of settings mean."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr


def host_of(url: str) -> str | None:
    """The host of an address, if it can be told."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def topic_entries(text: str) -> tuple[str, ...]:
    """The entries of a list of topics; a comma within braces belongs to its pattern."""
    return tuple(entry for entry in re.split(r"[,\s]+(?![^{]*\})", text) if entry)


def split_list(text: str) -> tuple[str, ...]:
    """The parts of a list."""
    return tuple(part for part in re.split(r"[,\s]+", text) if part)


def to_plain(value: Any) -> Any:
    """A value as processes hand it to each other."""
    match value:
        case SecretStr():
            return value.get_secret_value()
        case Path():
            return str(value)
        case _:
            return value
