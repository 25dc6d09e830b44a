"""Names resolved to addresses that may be called, and to no others.

The connection is made to the very address that was checked, so a name that leads elsewhere a
moment later leads nowhere. What was checked is good for some seconds, for all who ask.
"""

import asyncio
import ipaddress
import socket
import time
from collections.abc import Callable
from typing import TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult

from core.shared.call_policy import CallPolicy
from handlers.http.dns import LOOKUP_TENANT, HostLookups, ResolveHost

CACHE_SECONDS = 5.0
MAX_CACHED = 1_000

_Name: TypeAlias = tuple[str, int, socket.AddressFamily]


class ForbiddenDestinationError(OSError):
    """The target is not to be called from here."""


class _Asking:
    """One question, and how many wait for its answer."""

    def __init__(self, task: "asyncio.Task[list[ResolveResult]]") -> None:
        self.task = task
        self.waiting = 0


class GuardedResolver(AbstractResolver):
    """Resolves by the system, then lets pass what the policy permits. Each name is asked once."""

    def __init__(
        self,
        destinations: CallPolicy,
        look: ResolveHost | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._destinations = destinations
        self._lookups = HostLookups(look)
        self._monotonic = monotonic
        self._kept: dict[_Name, tuple[list[ResolveResult], float]] = {}
        # By tenant: nobody waits for room that somebody else has not got.
        self._asking: dict[tuple[int, _Name], _Asking] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Every permitted address of a host.

        Raises:
            ForbiddenDestinationError: It has none.
        """
        name = (host, port, family)
        kept = self._kept.get(name)
        if kept is not None and self._monotonic() < kept[1]:
            return kept[0]
        key = (LOOKUP_TENANT.get(), name)
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = _Asking(asyncio.create_task(self._resolve(*key)))
            asking.task.add_done_callback(lambda task: self._answered(key, task))
        asking.waiting += 1
        try:
            return await asyncio.shield(asking.task)
        finally:
            asking.waiting -= 1
            if not asking.waiting:  # nobody is left who wants to know
                self._forget(key, asking.task)
                asking.task.cancel()

    async def close(self) -> None:
        """Ask nothing new."""
        self._lookups.close()

    async def _resolve(self, tenant: int, name: _Name) -> list[ResolveResult]:
        host = name[0]
        found = await asyncio.shield(await self._lookups.resolve(tenant, *name))
        permitted = [one for one in found if self._destinations.permits(one["host"])]
        if not permitted:
            raise ForbiddenDestinationError(f"{host} leads to an address that may not be called")
        self._kept.pop(name, None)
        self._kept[name] = (permitted, self._monotonic() + CACHE_SECONDS)
        if len(self._kept) > MAX_CACHED:
            del self._kept[next(iter(self._kept))]
        return permitted

    def _forget(self, key: tuple[int, _Name], task: "asyncio.Task[list[ResolveResult]]") -> None:
        asking = self._asking.get(key)
        if asking is not None and asking.task is task:
            del self._asking[key]

    def _answered(self, key: tuple[int, _Name], task: "asyncio.Task[list[ResolveResult]]") -> None:
        self._forget(key, task)
        if not task.cancelled():
            task.exception()  # told to those who waited; if all have left, to nobody


def check_destination(host: str, port: int | None, destinations: CallPolicy) -> None:
    """What can be said of a place before its name is resolved: the port, and a literal address.

    Raises:
        ForbiddenDestinationError: It may not be called, or is spelled in an odd way.
    """
    if port is not None and not destinations.permits_port(port):
        raise ForbiddenDestinationError(f"port {port} may not be called")
    _check_literal(host, destinations)


def _check_literal(host: str, destinations: CallPolicy) -> None:
    """An address in place of a name is never resolved, so it is checked by itself."""
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
