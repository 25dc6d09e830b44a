"""Parses the text values of settings."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr


def host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def dial_host(host: str) -> str:
    """Return the address at which a local client reaches a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104


def url_of(host: str, port: int) -> str:
    """Return the URL of a server that listens on `host`, for a client on this machine."""
    name = dial_host(host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def topic_entries(text: str) -> tuple[str, ...]:
    """Split a list of topics; a comma within braces belongs to its pattern."""
    return tuple(entry for entry in re.split(r"[,\s]+(?![^{]*\})", text) if entry)


def split_list(text: str) -> tuple[str, ...]:
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
