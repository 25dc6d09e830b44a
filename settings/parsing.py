"""Parses the text values of settings."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr


def host_of(url: str) -> str | None:
    """Return the host of a URL, or None."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def topic_entries(text: str) -> tuple[str, ...]:
    """Split a list of topics; a comma within braces belongs to its pattern."""
    return tuple(entry for entry in re.split(r"[,\s]+(?![^{]*\})", text) if entry)


def split_list(text: str) -> tuple[str, ...]:
    """Split a list at commas and blanks."""
    return tuple(part for part in re.split(r"[,\s]+", text) if part)


def to_plain(value: Any) -> Any:
    """Convert a value to what processes pass to each other."""
    match value:
        case SecretStr():
            return value.get_secret_value()
        case Path():
            return str(value)
        case _:
            return value
