"""Resolves host names to permitted addresses only.

The connection is made to the very address that was checked, so that a DNS answer that changes in
between (rebinding) has no effect. Permitted addresses are cached for some seconds.
"""

import asyncio
import ipaddress
import time
from collections.abc import Callable
from typing import TypeAlias

from core.shared.call_policy import CallPolicy
from handlers.http.dns import HostLookups, ResolveHost

CACHE_SECONDS = 5.0
MAX_CACHED = 1_000

_RULE = "it is neither public nor in MUSTER_CALL_NETWORKS"

_Lookup: TypeAlias = tuple[int, str]
"""The tenant and the host: a lookup never waits for the slot of another tenant."""


class ForbiddenDestinationError(OSError):
    """The call policy forbids this destination."""


class _Asking:
    """A lookup under way, and how many callers wait for it."""

    def __init__(self, task: "asyncio.Task[list[str]]") -> None:
        self.task = task
        self.waiting = 0


class GuardedResolver:
    """Resolves names by the system and filters the addresses by the call policy."""

    def __init__(
        self,
        policy: CallPolicy,
        resolve: ResolveHost | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = policy
        self._lookups = HostLookups(resolve)
        self._monotonic = monotonic
        self._cache: dict[str, tuple[list[str], float]] = {}
        self._asking: dict[_Lookup, _Asking] = {}

    async def resolve(self, tenant: int, host: str) -> list[str]:
        """Return every permitted address of a host. Concurrent calls share one lookup.

        Raises:
            ForbiddenDestinationError: The host has no permitted address.
        """
        cached = self._cache.get(host)
        if cached is not None and self._monotonic() < cached[1]:
            return cached[0]
        key = (tenant, host)
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = _Asking(asyncio.create_task(self._resolve(*key)))
            asking.task.add_done_callback(lambda task: self._answered(key, task))
        asking.waiting += 1
        try:
            return await asyncio.shield(asking.task)
        finally:
            asking.waiting -= 1
            if not asking.waiting:
                self._forget(key, asking.task)
                asking.task.cancel()

    def close(self) -> None:
        self._lookups.close()

    async def _resolve(self, tenant: int, host: str) -> list[str]:
        found = await asyncio.shield(await self._lookups.resolve(tenant, host))
        permitted = [address for address in found if self._policy.permits(address)]
        if not permitted:
            raise ForbiddenDestinationError(
                f"{host} resolves to an address that may not be called: {_RULE}"
            )
        self._cache.pop(host, None)
        self._cache[host] = (permitted, self._monotonic() + CACHE_SECONDS)
        if len(self._cache) > MAX_CACHED:
            del self._cache[next(iter(self._cache))]
        return permitted

    def _forget(self, key: _Lookup, task: "asyncio.Task[list[str]]") -> None:
        asking = self._asking.get(key)
        if asking is not None and asking.task is task:
            del self._asking[key]

    def _answered(self, key: _Lookup, task: "asyncio.Task[list[str]]") -> None:
        self._forget(key, task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it when no caller is left


def check_destination(host: str, port: int | None, policy: CallPolicy) -> None:
    """Check the port, and the host if it is a literal address.

    Raises:
        ForbiddenDestinationError: The policy forbids it, or it is no valid IP address.
    """
    if port is not None and not policy.permits_port(port):
        raise ForbiddenDestinationError(
            f"port {port} may not be called: it is not in MUSTER_CALL_PORTS"
        )
    _check_literal(host, policy)


def _check_literal(host: str, policy: CallPolicy) -> None:
    """Check an address that stands in place of a name, since it is never resolved."""
    bare = host.strip("[]")
    try:
        ipaddress.ip_address(bare.partition("%")[0])
    except ValueError:
        # The system accepts more spellings of an IP address than Python does: refuse those.
        if ":" in bare or bare.replace(".", "").isdigit():
            raise ForbiddenDestinationError(f"{bare} is not a valid IP address") from None
        return  # a name
    if not policy.permits(bare):
        raise ForbiddenDestinationError(f"{bare} may not be called: {_RULE}")
