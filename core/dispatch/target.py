"""Targets: the servers that deliveries go to, for limits and circuit breakers."""

from functools import lru_cache
from typing import TypeAlias
from urllib.parse import urlsplit

TargetKey: TypeAlias = tuple[int, str]
"""A tenant and a server: failures of one tenant's deliveries do not affect another tenant."""

_USUAL_PORTS = {"http": 80, "https": 443}


def target_key_of(tenant: int, url: str) -> TargetKey:
    return tenant, origin_of(url)


@lru_cache(10_000)
def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL; return a text that is no URL as it is."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return url
    if not parts.scheme or not host:
        return url
    host = host.rstrip(".")
    named = f"[{host}]" if ":" in host else host
    if port is None or port == _USUAL_PORTS.get(parts.scheme):
        return f"{parts.scheme}://{named}"
    return f"{parts.scheme}://{named}:{port}"
