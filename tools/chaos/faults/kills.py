"""kill -9, again and again, of whatever the instance is made of."""

import asyncio
import time
from collections import Counter

import psutil

from tools.chaos.fault import Disruption, Fault, FaultRun, InjectFault
from tools.chaos.faults.victims import Victim, VictimKind, find_victims
from tools.chaos.probe import count_shards, wait_for_actors, wait_for_deadlines, wait_for_writes

_BETWEEN = (0.2, 1.5)  # seconds of peace
_DOUBLE = 0.2  # how often two processes go at once
_BACK_WITHIN = 90.0
_THERE_WITHIN = 10.0
# Callers do not notice when these are gone: that they are back, the supervisor has to say.
_BEHIND = frozenset(
    {
        VictimKind.SUPERVISOR,
        VictimKind.MAINTENANCE,
        VictimKind.POOL,
        VictimKind.DISPATCH,
        VictimKind.KAFKA_INGEST,
        VictimKind.RELAY,
    }
)
_PROBES_PER_SHARD = 4


def kill_fault(*kinds: VictimKind) -> InjectFault:
    """Build a fault that kills processes of these kinds."""

    async def inject(scene: FaultRun) -> None:
        wanted = frozenset(kinds)
        probes = _PROBES_PER_SHARD * max(1, await count_shards(scene.client))
        killed: Counter[VictimKind] = Counter()
        seen = time.monotonic()
        while killed.total() < scene.times:
            await asyncio.sleep(scene.rng.uniform(*_BETWEEN))
            doomed = choose_victims(scene, wanted, scene.times - killed.total())
            if not doomed:  # it is just being started anew
                if time.monotonic() - seen < (_BACK_WITHIN if killed else _THERE_WITHIN):
                    continue
                scene.check("there is something to kill", False, f"no {'/'.join(kinds)} runs here")
                return
            if not await _kill(scene, doomed, probes):
                return
            seen = time.monotonic()
            killed.update(victim.kind for victim in doomed)
            scene.progress = killed.total() / scene.times

    return inject


def choose_victims(scene: FaultRun, wanted: frozenset[VictimKind], most: int) -> list[Victim]:
    """One process, now and then two, each kind as likely as any other."""
    found = find_victims(scene.local.run_dir, wanted)
    rng = scene.rng
    doomed: list[Victim] = []
    count = min(most, 2 if rng.random() < _DOUBLE else 1)
    while found and len(doomed) < count:
        kind = rng.choice(sorted({victim.kind for victim in found}))
        doomed.append(rng.choice([victim for victim in found if victim.kind is kind]))
        found.remove(doomed[-1])
    return doomed


async def _kill(scene: FaultRun, doomed: list[Victim], probes: int) -> bool:
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
        scene.note(Disruption(what, at))
        scene.check("serves again", False, f"not within {_BACK_WITHIN:.0f} s after {what}")
        return False
    scene.note(Disruption(what, at, time.monotonic() - began))
    return True


async def _served(scene: FaultRun, doomed: list[Victim], probes: int) -> None:
    """Until callers have everything back that these processes do for them."""
    kinds = {victim.kind for victim in doomed}
    await wait_for_writes(scene.client, probes)
    if VictimKind.TIMER in kinds:
        await wait_for_deadlines(scene.client)
    if kinds & _BEHIND:
        await wait_for_actors(scene.client, {victim.process.pid for victim in doomed})


KILLS = (
    Fault(
        name="kills",
        summary="kill -9 of random processes: every actor, the ingress, Serve, HAProxy.",
        inject=kill_fault(*VictimKind),
        times=50,
    ),
    *(
        Fault(
            name=f"kill-{kind}",
            summary=f"kill -9 of {who}.",
            inject=kill_fault(kind),
            times=10,
        )
        for kind, who in (
            (VictimKind.SHARD, "the actors that host the correlations"),
            (VictimKind.TIMER, "the actor that fires deadlines"),
            (VictimKind.MAINTENANCE, "the actor that does the housekeeping"),
            (VictimKind.SUPERVISOR, "the actor that looks after the others"),
            (VictimKind.POOL, "the actors that call resources for gathers"),
            (VictimKind.DISPATCH, "the actors that deliver webhooks"),
            (VictimKind.KAFKA_INGEST, "the actors that read Kafka"),
            (VictimKind.RELAY, "the actor that publishes to Kafka"),
            (VictimKind.INGRESS, "the HTTP replicas"),
            (VictimKind.CONTROLLER, "Serve's controller"),
            (VictimKind.PROXY, "Serve's proxies, one of which looks after HAProxy"),
            (VictimKind.HAPROXY, "HAProxy, the front door"),
        )
    ),
)
