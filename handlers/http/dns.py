"""Names asked of the system, in threads of our own and a bounded number at a time.

A name whose server does not answer holds a thread until the system gives up. A tenant has half of
the threads at most, and there is always one for the next; of one domain it has only a few. So
whoever makes such names up keeps nobody else from being asked.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import NamedTuple, TypeAlias

from aiohttp.abc import ResolveResult

from core.shared.domain_names import registrable_domain
from core.shared.tenant_share import SharedLimit

ResolveHost: TypeAlias = Callable[[str, int, socket.AddressFamily], Awaitable[list[ResolveResult]]]

MAX_CONCURRENT = 32
MAX_CONCURRENT_PER_DOMAIN = 4
"""For one tenant."""
MAX_WAITING = 500
"""Names of one tenant that wait for room."""

LOOKUP_TENANT: ContextVar[int] = ContextVar("lookup_tenant", default=0)
"""Whose call it is that names are resolved for: what lies between passes nothing on."""
_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class LookupsFullError(OSError):
    """Too many names of this tenant wait to be resolved."""


class _Waiting(NamedTuple):
    """A name that waits for room."""

    domain: str
    admitted: "asyncio.Future[None]"


class HostLookups:
    """Asks, as soon as there is room. Tenants take turns; what can go passes by what cannot."""

    def __init__(self, look: ResolveHost | None = None) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._look = look or self._ask_system
        self._room = SharedLimit(MAX_CONCURRENT)
        self._domains: Counter[tuple[int, str]] = Counter()
        self._waiting: dict[int, list[_Waiting]] = {}

    async def resolve(
        self, tenant: int, host: str, port: int, family: socket.AddressFamily
    ) -> "asyncio.Future[list[ResolveResult]]":
        """Wait for room, then begin; it goes on, and keeps its room, if nobody waits any more.

        Raises:
            LookupsFullError: Too many names of this tenant wait already.
        """
        domain = registrable_domain(host)
        if self._fits(tenant, domain):
            self._enter(tenant, domain)
        else:
            await self._wait(tenant, domain)
        asking = asyncio.ensure_future(self._look(host, port, family))
        asking.add_done_callback(lambda _: self._leave(tenant, domain))
        return asking

    def close(self) -> None:
        """Let the threads go; one that still asks ends with its answer."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None

    async def _wait(self, tenant: int, domain: str) -> None:
        waiting = self._waiting.setdefault(tenant, [])
        if len(waiting) >= MAX_WAITING:
            raise LookupsFullError("too many names of this tenant wait to be resolved")
        one = _Waiting(domain, asyncio.get_running_loop().create_future())
        waiting.append(one)
        try:
            await one.admitted
        except asyncio.CancelledError:
            if not one.admitted.cancelled():
                self._leave(tenant, domain)
            raise
        finally:
            if one in waiting:
                waiting.remove(one)
            if not waiting:
                self._waiting.pop(tenant, None)

    def _fits(self, tenant: int, domain: str) -> bool:
        is_busy = self._domains[tenant, domain] >= MAX_CONCURRENT_PER_DOMAIN
        return not is_busy and self._room.fits(tenant, 1, 0.0)

    def _enter(self, tenant: int, domain: str) -> None:
        self._room.take(tenant, 1)
        self._domains[tenant, domain] += 1

    def _leave(self, tenant: int, domain: str) -> None:
        self._room.release(tenant, 1)
        self._domains[tenant, domain] -= 1
        if not self._domains[tenant, domain]:
            del self._domains[tenant, domain]
        is_moving = True
        while is_moving:
            admitted = [self._admit_one(tenant) for tenant in list(self._waiting)]
            is_moving = any(admitted)

    def _admit_one(self, tenant: int) -> bool:
        waiting = self._waiting[tenant]
        for at, one in enumerate(waiting):
            if not one.admitted.done() and self._fits(tenant, one.domain):
                self._enter(tenant, one.domain)
                one.admitted.set_result(None)
                del waiting[at]
                self._waiting.pop(tenant)
                if waiting:
                    self._waiting[tenant] = waiting
                return True
        return False

    async def _ask_system(
        self, host: str, port: int, family: socket.AddressFamily
    ) -> list[ResolveResult]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MAX_CONCURRENT, thread_name_prefix="lookup")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _addresses, host, port, family)


def _addresses(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    found = socket.getaddrinfo(
        host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
    )
    return [
        ResolveResult(
            hostname=host,
            # As numbers, with the scope that an address of the local link has.
            host=socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0],
            port=port,
            family=kind,
            proto=proto,
            flags=_NUMERIC,
        )
        for kind, _, proto, _, address in found
    ]
