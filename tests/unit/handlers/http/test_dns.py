"""Names are looked up by a few threads that many share: a slow name holds up its own only."""

import asyncio

import pytest

from handlers.http.dns import (
    MAX_CONCURRENT,
    MAX_CONCURRENT_PER_DOMAIN,
    MAX_WAITING,
    LookupsFullError,
)
from handlers.http.guarded_resolver import CACHE_SECONDS, ForbiddenDestinationError, GuardedResolver
from tests.unit.handlers.http.fake_dns import PUBLIC, FakeDns


class SlowNames(FakeDns):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.under_way = self.most = 0

    async def look(self, host: str) -> list[str]:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.gate.wait()
            return await super().look(host)
        finally:
            self.under_way -= 1


async def asked(names: SlowNames, number: int) -> None:
    """Let all go on until so many are asked for; no name needs more turns than this."""
    for _ in range(1_000):
        await asyncio.sleep(0)
    assert names.under_way == number


async def test_a_name_is_asked_once_by_many_and_not_again_for_a_while() -> None:
    names, now = SlowNames(), [0.0]
    names.answers["a.example"] = [["93.184.216.34"], ["10.0.0.1"]]
    resolver = GuardedResolver(PUBLIC, names.look, lambda: now[0])
    asking = [asyncio.create_task(resolver.resolve(0, "a.example")) for _ in range(50)]
    await asked(names, 1)
    names.gate.set()
    answers = await asyncio.gather(*asking)
    assert {one for found in answers for one in found} == {"93.184.216.34"}
    now[0] += CACHE_SECONDS - 0.1
    await resolver.resolve(0, "a.example")
    assert names.asked == ["a.example"]
    now[0] += 0.1  # it leads elsewhere now, and what was checked is too old
    with pytest.raises(ForbiddenDestinationError):
        await resolver.resolve(0, "a.example")
    resolver.close()


async def test_names_of_a_slow_domain_do_not_keep_others_from_being_asked() -> None:
    names = SlowNames()
    names.answers = {f"{at}.slow.example": [["93.184.216.34"]] for at in range(100)}
    resolver = GuardedResolver(PUBLIC, names.look)
    asking = [asyncio.create_task(resolver.resolve(0, host)) for host in names.answers]
    await asked(names, MAX_CONCURRENT_PER_DOMAIN)
    other = asyncio.create_task(resolver.resolve(0, "quick.test"))
    await asked(names, MAX_CONCURRENT_PER_DOMAIN + 1)
    assert names.most == MAX_CONCURRENT_PER_DOMAIN + 1
    for task in asking[50:]:
        task.cancel()
    await asyncio.wait(asking[50:])
    names.answers["quick.test"] = [["93.184.216.35"]]
    names.gate.set()
    assert len(await other) == 1
    assert len(await asyncio.gather(*asking[:50])) == 50
    assert len(names.asked) == 51  # what nobody waits for is not asked
    resolver.close()


async def test_a_tenant_has_half_of_the_threads_and_the_next_finds_one() -> None:
    names = SlowNames()
    hosts = [f"a.b{at}" for at in range(MAX_CONCURRENT * 2)]
    names.answers = {host: [["93.184.216.34"]] for host in [*hosts, "quick.test"]}
    resolver = GuardedResolver(PUBLIC, names.look)
    asking = [asyncio.create_task(resolver.resolve(1, host)) for host in hosts]
    await asked(names, MAX_CONCURRENT // 2)
    asking += [asyncio.create_task(resolver.resolve(2, host)) for host in hosts]
    await asked(names, MAX_CONCURRENT // 2 + MAX_CONCURRENT // 4)
    other = asyncio.create_task(resolver.resolve(3, "quick.test"))
    await asked(names, MAX_CONCURRENT // 2 + MAX_CONCURRENT // 4 + 1)
    names.gate.set()
    await other
    await asyncio.gather(*asking)
    assert names.most <= MAX_CONCURRENT
    resolver.close()


async def test_slow_names_of_one_owner_under_a_public_suffix_hold_no_other() -> None:
    names = SlowNames()
    slow = [f"{at}.evil.co.uk" for at in range(20)]
    names.answers = {host: [["93.184.216.34"]] for host in [*slow, "shop.victim.co.uk"]}
    resolver = GuardedResolver(PUBLIC, names.look)
    asking = [asyncio.create_task(resolver.resolve(0, host)) for host in slow]
    await asked(names, MAX_CONCURRENT_PER_DOMAIN)
    asking.append(asyncio.create_task(resolver.resolve(0, "shop.victim.co.uk")))
    await asked(names, MAX_CONCURRENT_PER_DOMAIN + 1)
    names.gate.set()
    await asyncio.gather(*asking)
    resolver.close()


async def test_so_many_names_of_a_tenant_wait_and_no_more() -> None:
    names = SlowNames()
    hosts = [f"{at}.slow.example" for at in range(MAX_CONCURRENT_PER_DOMAIN + MAX_WAITING)]
    names.answers = {host: [["93.184.216.34"]] for host in [*hosts, "one.slow.example"]}
    resolver = GuardedResolver(PUBLIC, names.look)
    asking = [asyncio.create_task(resolver.resolve(1, host)) for host in hosts]
    await asked(names, MAX_CONCURRENT_PER_DOMAIN)
    await asyncio.sleep(0)
    with pytest.raises(LookupsFullError):
        await resolver.resolve(1, "one.slow.example")
    asking.append(asyncio.create_task(resolver.resolve(2, "one.slow.example")))
    await asked(names, MAX_CONCURRENT_PER_DOMAIN + 1)
    names.gate.set()
    assert len(await asyncio.gather(*asking)) == len(hosts) + 1
    resolver.close()


async def test_what_is_given_up_while_it_waits_for_room_leaves_nothing_behind() -> None:
    names = SlowNames()
    hosts = [f"{at}.slow.example" for at in range(20)]
    names.answers = {host: [["93.184.216.34"]] for host in hosts}
    resolver = GuardedResolver(PUBLIC, names.look)
    asking = [asyncio.create_task(resolver.resolve(0, host)) for host in hosts]
    await asked(names, MAX_CONCURRENT_PER_DOMAIN)
    for task in asking[10:]:
        task.cancel()
    await asyncio.wait(asking[10:])
    names.gate.set()
    await asyncio.gather(*asking[:10])
    assert not resolver._lookups._waiting
    assert not resolver._lookups._domains
    assert resolver._lookups._slots.taken == 0
    resolver.close()


async def test_who_gives_up_does_not_take_the_answer_from_others() -> None:
    names = SlowNames()
    names.answers["a.example"] = [["93.184.216.34"]]
    resolver = GuardedResolver(PUBLIC, names.look)
    first, second = (asyncio.create_task(resolver.resolve(0, "a.example")) for _ in "ab")
    await asked(names, 1)
    first.cancel()
    await asyncio.wait({first})
    names.gate.set()
    assert len(await second) == 1
    assert names.asked == ["a.example"]
    resolver.close()


async def test_who_asks_when_all_have_given_up_gets_an_answer() -> None:
    names = SlowNames()
    names.answers["a.example"] = [["93.184.216.34"]]
    resolver = GuardedResolver(PUBLIC, names.look)
    first = asyncio.create_task(resolver.resolve(0, "a.example"))
    await asked(names, 1)
    first.cancel()
    second = asyncio.create_task(resolver.resolve(0, "a.example"))
    names.gate.set()
    assert len(await second) == 1
    resolver.close()
