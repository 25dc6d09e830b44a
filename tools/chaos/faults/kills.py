"""kill -9, again and again, of whatever the instance is made of."""

import asyncio
import time
from collections import Counter

import psutil

from tools.chaos.fault import Blow, Fault, Scene, Strike
from tools.chaos.faults.victims import Kind, Victim, victims
from tools.chaos.probe import fires_again, reports_again, shards_of, writes_again

_BETWEEN = (0.2, 1.5)  # seconds of peace
_DOUBLE = 0.2  # how often two processes go at once
_BACK_WITHIN = 90.0
_THERE_WITHIN = 10.0
# Callers do not notice when these are gone: that they are back, the supervisor has to say.
_BEHIND = frozenset({Kind.SUPERVISOR, Kind.POOL, Kind.DISPATCH, Kind.KAFKA_INGEST, Kind.RELAY})
_PROBES_PER_SHARD = 4


def killer_of(*kinds: Kind) -> Strike:
    """A fault that kills processes of these kinds."""

    async def strike(scene: Scene) -> None:
        wanted = frozenset(kinds)
        probes = _PROBES_PER_SHARD * max(1, await shards_of(scene.client))
        killed: Counter[Kind] = Counter()
        seen = time.monotonic()
        while killed.total() < scene.times:
            await asyncio.sleep(scene.chance.uniform(*_BETWEEN))
            doomed = choose(scene, wanted, scene.times - killed.total())
            if not doomed:  # it is just being started anew
                if time.monotonic() - seen < (_BACK_WITHIN if killed else _THERE_WITHIN):
                    continue
                scene.check("there is something to kill", False, f"no {'/'.join(kinds)} runs here")
                return
            if not await _kill(scene, doomed, probes):
                return
            seen = time.monotonic()
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
            await _served(scene, doomed, probes)
    except TimeoutError:
        scene.note(Blow(what, at))
        scene.check("serves again", False, f"not within {_BACK_WITHIN:.0f} s after {what}")
        return False
    scene.note(Blow(what, at, time.monotonic() - began))
    return True


async def _served(scene: Scene, doomed: list[Victim], probes: int) -> None:
    """Until callers have everything back that these processes do for them."""
    kinds = {victim.kind for victim in doomed}
    await writes_again(scene.client, probes)
    if Kind.TIMER in kinds:
        await fires_again(scene.client)
    if kinds & _BEHIND:
        await reports_again(scene.client, {victim.process.pid for victim in doomed})


KILLS = (
    Fault(
        name="kills",
        summary="kill -9 of random processes: every actor, the ingress, Serve, HAProxy.",
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
            (Kind.POOL, "the actors that call resources for gathers"),
            (Kind.DISPATCH, "the actors that deliver webhooks"),
            (Kind.KAFKA_INGEST, "the actors that read Kafka"),
            (Kind.RELAY, "the actor that publishes to Kafka"),
            (Kind.INGRESS, "the HTTP replicas"),
            (Kind.CONTROLLER, "Serve's controller"),
            (Kind.PROXY, "Serve's proxies, one of which looks after HAProxy"),
            (Kind.HAPROXY, "HAProxy, the front door"),
        )
    ),
)
