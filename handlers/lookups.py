"""Names asked of the system, in threads of our own and a bounded number at a time.

A name whose server does not answer holds a thread until the system gives up. Of one domain only a
few are asked at once, so that whoever makes such names up does not keep others from being asked.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from aiohttp.abc import ResolveResult

Look: TypeAlias = Callable[[str, int, socket.AddressFamily], Awaitable[list[ResolveResult]]]

AT_ONCE = 32
AT_ONCE_OF_A_DOMAIN = 4
_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class Lookups:
    """Asks, as soon as there is room."""

    def __init__(self, look: Look | None = None) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._look = look or self._ask_system
        self._room = asyncio.Semaphore(AT_ONCE)
        self._domains: dict[str, asyncio.Semaphore] = {}
        self._users: dict[str, int] = {}

    async def ask(
        self, host: str, port: int, family: socket.AddressFamily
    ) -> "asyncio.Future[list[ResolveResult]]":
        """Wait for room, then begin; it goes on, and keeps its room, if nobody waits any more."""
        domain = _domain_of(host)
        own = self._domains.setdefault(domain, asyncio.Semaphore(AT_ONCE_OF_A_DOMAIN))
        self._users[domain] = self._users.get(domain, 0) + 1
        try:
            await own.acquire()
            try:
                await self._room.acquire()
            except BaseException:
                own.release()
                raise
        except BaseException:
            self._leave(domain)
            raise
        asking = asyncio.ensure_future(self._look(host, port, family))
        asking.add_done_callback(lambda _: self._done(domain, own))
        return asking

    def close(self) -> None:
        """Let the threads go; one that still asks ends with its answer."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None

    def _done(self, domain: str, own: asyncio.Semaphore) -> None:
        self._room.release()
        own.release()
        self._leave(domain)

    def _leave(self, domain: str) -> None:
        self._users[domain] -= 1
        if not self._users[domain]:
            del self._users[domain], self._domains[domain]

    async def _ask_system(
        self, host: str, port: int, family: socket.AddressFamily
    ) -> list[ResolveResult]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="lookup")
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


def _domain_of(host: str) -> str:
    """The last two parts of a name: who has one, has all names below it."""
    return ".".join(host.lower().rstrip(".").rsplit(".", 2)[-2:])
