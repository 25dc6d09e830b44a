"""Where a delivery goes, as far as it matters who is busy or in trouble: to which server."""

from functools import lru_cache
from typing import TypeAlias
from urllib.parse import urlsplit

TargetKey: TypeAlias = tuple[int, str]
"""A server as one tenant sees it: one tenant's trouble with it is not another's."""

_USUAL_PORTS = {"http": 80, "https": 443}


def target_key_of(tenant: int, url: str) -> TargetKey:
    """Where a tenant's job to this address goes."""
    return tenant, origin_of(url)


@lru_cache(10_000)
def origin_of(url: str) -> str:
    """The server that an address leads to; what is no address stands for itself."""
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
