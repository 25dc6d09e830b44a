"""Who wants an event is asked once, and again when something has changed."""

from collections.abc import Sequence

from core.dispatch.job import ANCHOR
from core.dispatch.subscription import Subscription, candidate_patterns
from services.events.subscription_cache import MAX_ENTRIES, TTL, SubscriptionCache
from tests.support.subscriptions import CREATED, subscription


class World:
    """Counts who asks."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[tuple[int, Sequence[str]]] = []
        self.cache = SubscriptionCache(self.matching, lambda: self.now)

    async def matching(self, tenant: int, patterns: Sequence[str]) -> list[Subscription]:
        self.asked.append((tenant, patterns))
        return [subscription(tenant)]


async def test_each_tenant_and_type_is_asked_for_once() -> None:
    world = World()
    for _ in range(3):
        assert await world.cache.matching(1, CREATED) == (subscription(1),)
    assert await world.cache.matching(2, CREATED) == (subscription(2),)
    assert world.asked == [(1, candidate_patterns(CREATED)), (2, candidate_patterns(CREATED))]


async def test_what_is_known_is_forgotten_after_its_time_and_when_told() -> None:
    world = World()
    await world.cache.matching(1, CREATED)
    world.now = TTL - 1
    await world.cache.matching(1, CREATED)
    assert len(world.asked) == 1
    world.now = TTL
    await world.cache.matching(1, CREATED)
    assert len(world.asked) == 2
    world.cache.clear()
    await world.cache.matching(1, CREATED)
    assert len(world.asked) == 3


async def test_made_up_types_do_not_fill_the_memory() -> None:
    world = World()
    for number in range(MAX_ENTRIES + 1):
        await world.cache.matching(1, f"type-{number}")
    await world.cache.matching(1, f"type-{MAX_ENTRIES}")
    assert len(world.asked) == MAX_ENTRIES + 1
    await world.cache.matching(1, "type-0")
    assert len(world.asked) == MAX_ENTRIES + 2


async def test_one_tenants_change_is_not_anothers() -> None:
    world = World()
    for tenant in (1, 2):
        await world.cache.matching(tenant, CREATED)
    for changed, asked in ((1, 3), (3, 3), (ANCHOR, 5), (None, 7)):
        world.cache.clear(changed)
        for tenant in (1, 2):
            await world.cache.matching(tenant, CREATED)
        assert len(world.asked) == asked
