"""kill -9, again and again, of whatever the instance is made of."""

import asyncio
import time
from collections import Counter

import psutil

from cli.chaos.fault import Blow, Fault, Scene, Strike
from cli.chaos.probe import fires_again, reports_again, shards_of, writes_again
from cli.chaos.victims import Kind, Victim, victims

_BETWEEN = (0.2, 1.5)  # seconds of peace
_DOUBLE = 0.2  # how often two processes go at once
_BACK_WITHIN = 90.0
_PROBES_PER_SHARD = 4


def killer_of(*kinds: Kind) -> Strike:
    """A fault that kills processes of these kinds."""

    async def strike(scene: Scene) -> None:
        wanted = frozenset(kinds)
        probes = _PROBES_PER_SHARD * max(1, await shards_of(scene.client))
        killed: Counter[Kind] = Counter()
        while killed.total() < scene.times:
            await asyncio.sleep(scene.chance.uniform(*_BETWEEN))
            doomed = choose(scene, wanted, scene.times - killed.total())
            if not doomed:
                continue  # it is just being started anew
            if not await _kill(scene, doomed, probes):
                return
            killed.update(victim.kind for victim in doomed)
            scene.share = killed.total() / scene.times

    return strike


def choose(scene: Scene, wanted: frozenset[Kind], most: int) -> list[Victim]:
    """One process, now and then two, each kind as likely as any other."""
    found = victims(scene.local.run_dir, wanted)
    chance = scene.chance
    doomed: list[Victim] = []
    count = min(most, 2 if chance.random() < _DOUBLE else 1)
    while found and len(doomed) < count:
        kind = chance.choice(sorted({victim.kind for victim in found}))
        doomed.append(chance.choice([victim for victim in found if victim.kind is kind]))
        found.remove(doomed[-1])
    return doomed


async def _kill(scene: Scene, doomed: list[Victim], probes: int) -> bool:
    """Kill and wait; False if it never served again."""
    at, began = scene.elapsed, time.monotonic()
    for victim in doomed:
        try:
            victim.kill()
        except psutil.NoSuchProcess:
            continue  # another death took it along
    what = "killed " + " and ".join(map(str, doomed))
    try:
        async with asyncio.timeout(_BACK_WITHIN):
            await _served(scene, {victim.kind for victim in doomed}, probes)
    except TimeoutError:
        scene.note(Blow(what, at))
        scene.check("serves again", False, f"not within {_BACK_WITHIN:.0f} s after {what}")
        return False
    scene.note(Blow(what, at, time.monotonic() - began))
    return True


async def _served(scene: Scene, kinds: set[Kind], probes: int) -> None:
    """Until callers have everything back that these processes do for them."""
    await writes_again(scene.client, probes)
    if Kind.TIMER in kinds:
        await fires_again(scene.client)
    if Kind.SUPERVISOR in kinds:
        await reports_again(scene.client)


KILLS = (
    Fault(
        name="kills",
        summary="kill -9 of random processes: shards, timer, supervisor, ingress, Serve, HAProxy.",
        strike=killer_of(*Kind),
        times=50,
    ),
    *(
        Fault(
            name=f"kill-{kind}",
            summary=f"kill -9 of {who}.",
            strike=killer_of(kind),
            times=10,
        )
        for kind, who in (
            (Kind.SHARD, "the actors that host the correlations"),
            (Kind.TIMER, "the actor that fires deadlines"),
            (Kind.SUPERVISOR, "the actor that looks after the others"),
            (Kind.INGRESS, "the HTTP replicas"),
            (Kind.CONTROLLER, "Serve's controller"),
            (Kind.PROXY, "Serve's proxies, one of which looks after HAProxy"),
            (Kind.HAPROXY, "HAProxy, the front door"),
        )
    ),
)
