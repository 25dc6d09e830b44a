"""DNS lookups by the operating system, in a bounded number of threads shared fairly by tenants.

A name whose server does not answer holds a thread until the system gives up. So a tenant may use at
most half of the threads, and only a few of them for one domain.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeAlias

from core.shared.call_policy import registrable_domain
from core.shared.tenant_share import SharedLimit

ResolveHost: TypeAlias = Callable[[str], Awaitable[list[str]]]
"""Returns the addresses of a host."""

MAX_CONCURRENT = 32
MAX_CONCURRENT_PER_DOMAIN = 4
"""For one tenant."""
MAX_WAITING = 500
"""Queued lookups of one tenant."""


class LookupsFullError(OSError):
    """Too many DNS lookups of this tenant are queued."""


class _Waiting(NamedTuple):
    domain: str
    admitted: "asyncio.Future[None]"


class HostLookups:
    """Runs lookups as slots become free. Tenants take turns; a blocked lookup blocks no other."""

    def __init__(self, resolve: ResolveHost | None = None) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._resolve = resolve or self._ask_system
        self._slots = SharedLimit(MAX_CONCURRENT)
        self._domains: Counter[tuple[int, str]] = Counter()
        self._waiting: dict[int, list[_Waiting]] = {}

    async def resolve(self, tenant: int, host: str) -> "asyncio.Future[list[str]]":
        """Wait for a slot and start the lookup, which runs to its end even if its caller gives up.

        Raises:
            LookupsFullError: Too many lookups of this tenant are queued.
        """
        domain = registrable_domain(host)
        if self._fits(tenant, domain):
            self._enter(tenant, domain)
        else:
            await self._wait(tenant, domain)
        asking = asyncio.ensure_future(self._resolve(host))
        asking.add_done_callback(lambda _: self._leave(tenant, domain))
        return asking

    def close(self) -> None:
        """Release the threads; a running lookup ends by itself."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None

    async def _wait(self, tenant: int, domain: str) -> None:
        waiting = self._waiting.setdefault(tenant, [])
        if len(waiting) >= MAX_WAITING:
            raise LookupsFullError("too many DNS lookups of this tenant are queued")
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
        return not is_busy and self._slots.fits(tenant, 1, 0.0)

    def _enter(self, tenant: int, domain: str) -> None:
        self._slots.take(tenant, 1)
        self._domains[tenant, domain] += 1

    def _leave(self, tenant: int, domain: str) -> None:
        self._slots.release(tenant, 1)
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

    async def _ask_system(self, host: str) -> list[str]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(MAX_CONCURRENT, thread_name_prefix="lookup")
        return await asyncio.get_running_loop().run_in_executor(self._threads, _addresses, host)


def _addresses(host: str) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    # In numeric form, with the scope of a link-local address.
    numeric = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
    return [socket.getnameinfo(address, numeric)[0] for *_, address in found]
