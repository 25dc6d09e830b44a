"""Names resolved to addresses that may be called, and to no others.

The connection is made to the very address that was checked, so a name that leads elsewhere a
moment later leads nowhere.
"""

import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from core.destinations import Destinations

Look: TypeAlias = Callable[[str, int, socket.AddressFamily], Awaitable[list[ResolveResult]]]


class ForbiddenDestinationError(OSError):
    """The target is not to be called from here."""


class GuardedResolver(AbstractResolver):
    """Resolves by the system, then lets pass what the policy permits."""

    def __init__(self, destinations: Destinations, look: Look | None = None) -> None:
        self._destinations = destinations
        self._look = look or ThreadedResolver().resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Every permitted address of a host.

        Raises:
            ForbiddenDestinationError: It has none.
        """
        found = await self._look(host, port, family)
        permitted = [one for one in found if self._destinations.permits(one["host"])]
        if not permitted:
            raise ForbiddenDestinationError(f"{host} leads to an address that may not be called")
        return permitted

    async def close(self) -> None:
        """Nothing is held."""


def check_literal(host: str, destinations: Destinations) -> None:
    """An address in place of a name is never resolved, so it is checked by itself.

    Raises:
        ForbiddenDestinationError: It may not be called, or is spelled in an odd way.
    """
    bare = host.strip("[]")
    try:
        ipaddress.ip_address(bare.partition("%")[0])
    except ValueError:
        # What a connector takes for an address, it hands to the system, which knows more spellings.
        if ":" in bare or bare.replace(".", "").isdigit():
            raise ForbiddenDestinationError(f"{bare} is no address") from None
        return  # a name
    if not destinations.permits(bare):
        raise ForbiddenDestinationError(f"{bare} may not be called")
