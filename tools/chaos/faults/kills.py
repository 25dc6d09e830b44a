"""kill -9, again and again, of whatever the instance is made of."""

import asyncio
import contextlib
import time
from collections import Counter
from functools import partial

import psutil

from tools.chaos.fault import Fault, FaultRun, InjectFault
from tools.chaos.faults.processes import Victim, VictimKind, find_victims
from tools.chaos.probe import count_probes, wait_for_actors, wait_for_deadlines, wait_until_served

_BETWEEN = (0.2, 1.5)  # seconds of peace
_DOUBLE = 0.2  # how often two processes go at once
_BACK_WITHIN = 90.0
_THERE_WITHIN = 10.0
# Callers do not notice when these are gone: the status page has to report that they are back.
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


def kill_fault(*kinds: VictimKind) -> InjectFault:
    """Build a fault that kills processes of these kinds."""

    async def inject(run: FaultRun) -> None:
        wanted = frozenset(kinds)
        probes = await count_probes(run.client)
        killed: Counter[VictimKind] = Counter()
        seen = time.monotonic()
        while killed.total() < run.times:
            await asyncio.sleep(run.rng.uniform(*_BETWEEN))
            victims = choose_victims(run, wanted, run.times - killed.total())
            if not victims:  # it is just being started anew
                if time.monotonic() - seen < (_BACK_WITHIN if killed else _THERE_WITHIN):
                    continue
                run.check("there is something to kill", False, f"no {'/'.join(kinds)} runs here")
                return
            if not await _kill(run, victims, probes):
                return
            seen = time.monotonic()
            killed.update(victim.kind for victim in victims)
            run.progress = killed.total() / run.times

    return inject


def choose_victims(run: FaultRun, wanted: frozenset[VictimKind], most: int) -> list[Victim]:
    """Choose one process, now and then two, each kind as likely as any other."""
    found = find_victims(run.local.run_dir, wanted)
    rng = run.rng
    chosen: list[Victim] = []
    count = min(most, 2 if rng.random() < _DOUBLE else 1)
    while found and len(chosen) < count:
        kind = rng.choice(sorted({victim.kind for victim in found}))
        chosen.append(rng.choice([victim for victim in found if victim.kind is kind]))
        found.remove(chosen[-1])
    return chosen


async def _kill(run: FaultRun, victims: list[Victim], probes: int) -> bool:
    """Kill processes and wait until callers have everything back; False if that never happens."""
    at, kinds = run.elapsed, {victim.kind for victim in victims}
    for victim in victims:
        with contextlib.suppress(psutil.NoSuchProcess):  # another death took it along
            victim.process.kill()
    waits = []
    if VictimKind.TIMER in kinds:
        waits.append(partial(wait_for_deadlines, run.client))
    if kinds & _BEHIND:
        gone = {victim.process.pid for victim in victims}
        waits.append(partial(wait_for_actors, run.client, gone))
    what = "killed " + " and ".join(map(str, victims))
    return await wait_until_served(run, what, at, probes, *waits)


_VICTIMS = {
    VictimKind.SHARD: "the actors that host the correlations",
    VictimKind.TIMER: "the actor that fires deadlines",
    VictimKind.MAINTENANCE: "the actor that does the housekeeping",
    VictimKind.SUPERVISOR: "the actor that looks after the others",
    VictimKind.POOL: "the actors that call resources for gathers",
    VictimKind.DISPATCH: "the actors that deliver webhooks",
    VictimKind.KAFKA_INGEST: "the actors that read Kafka",
    VictimKind.RELAY: "the actor that publishes to Kafka",
    VictimKind.INGRESS: "the HTTP replicas",
    VictimKind.CONTROLLER: "Serve's controller",
    VictimKind.PROXY: "Serve's proxies, one of which looks after HAProxy",
    VictimKind.HAPROXY: "HAProxy, the front door",
}
KILLS = (
    Fault(
        "kills",
        "kill -9 of random processes: every actor, the ingress, Serve, HAProxy.",
        kill_fault(*VictimKind),
        times=50,
    ),
    *(
        Fault(f"kill-{kind}", f"kill -9 of {who}.", kill_fault(kind), times=10)
        for kind, who in _VICTIMS.items()
    ),
)
