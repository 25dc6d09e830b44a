"""What a pool has to do, in memory: each group in its order, and every job when it falls due.

The board only arranges. Postgres has the last word on every job that is taken from it, so a board
that has missed something makes the pool ask once in vain and never send out of turn.
"""

from bisect import insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count, islice
from operator import attrgetter
from typing import TypeAlias, cast

import msgspec

from core.dispatch.job import GroupKey, JobKey, JobRef, Mode
from core.dispatch.target import TargetKey, target_key_of

MAX_JOBS_PER_GROUP = 100
MIN_KEPT_OF_FAILING_TARGET = 10
"""Jobs that stay of a site without hope, so that one is there to try it with."""

QueueKey: TypeAlias = GroupKey | str
"""A group, or the id of a job that belongs to none."""

_place = attrgetter("place")
_NEVER = float("inf")


class _Queue:
    """The jobs of one group; or a single one that belongs to none."""

    __slots__ = (
        "is_parked",
        "listed_target",
        "overflows",
        "reload_below",
        "taken",
        "waiting",
        "wakes_at",
    )

    def __init__(self, *, is_parked: bool = False) -> None:
        self.waiting: list[JobRef] = []
        self.taken: JobRef | None = None
        self.is_parked = is_parked
        self.overflows = False  # Postgres has more of it, behind what is here,
        self.reload_below = 0  # which is to be read when no more than this is left
        self.listed_target: TargetKey | None = None  # in whose list it stands
        self.wakes_at = _NEVER

    def next(self, now: float) -> JobRef | float:
        """The job whose turn it is, or when there will be one.

        A job that blocks on error goes first or not at all; others pass by those that failed. One
        that was never sent holds back all behind it until it is due.
        """
        soonest = _NEVER
        if self.taken is not None or self.is_parked:
            return soonest
        for at, job in enumerate(self.waiting):
            if at and job.mode is Mode.BLOCK_ON_ERROR:
                break
            if job.stuck:
                continue
            if job.due <= now:
                return job
            soonest = min(soonest, job.due)
            if not job.retrying:
                break
        return soonest

    @property
    def is_blocked(self) -> bool:
        """Whether one of its jobs failed for good and holds those behind it."""
        return bool(self.waiting) and self.waiting[0].stuck

    def shorten(self) -> list[JobRef]:
        """Keep the first job alone, as Postgres has the others; those that went."""
        gone, self.waiting = self.waiting[1:], self.waiting[:1]
        if gone:
            self.overflows, self.reload_below = True, 1
        return gone

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to remember."""
        return not (self.waiting or self.taken or self.overflows)


class JobScheduler:
    """Knows which job may go next. A job that is taken stays known until it is told what became."""

    def __init__(self, group_limit: int = MAX_JOBS_PER_GROUP) -> None:
        self._group_limit = group_limit
        self._queues: dict[QueueKey, _Queue] = {}
        self._keys: dict[JobKey, QueueKey] = {}
        self._due: list[tuple[float, int, QueueKey]] = []
        self._pushed = count()
        # Queues that can go now, by where they go. Each of these sites has a turn, or is held.
        self._listed: dict[TargetKey, OrderedDict[QueueKey, None]] = {}
        self._turns: OrderedDict[TargetKey, None] = OrderedDict()
        self._held: set[TargetKey] = set()
        self._parked: frozenset[GroupKey] = frozenset()
        self._starved: set[GroupKey] = set()
        self._readings: dict[int, set[JobKey]] = {}

    def __len__(self) -> int:
        """How many jobs it knows."""
        return len(self._keys)

    def __contains__(self, key: JobKey) -> bool:
        """Whether it knows this job."""
        return key in self._keys

    def keys(self) -> list[JobKey]:
        """Which jobs it knows."""
        return list(self._keys)

    def oldest_id(self) -> str | None:
        """The id of the job that was made first; ids sort by time."""
        return min((key.job_id for key in self._keys), default=None)

    def knows(self, group: GroupKey) -> bool:
        """Whether anything is known of this group."""
        return group in self._queues

    def add(self, job: JobRef, now: float) -> bool:
        """Take a job in; False if it is known, or if its group has more here than it may have."""
        key: QueueKey = job.group_key or job.job_id
        queue = self._queues.get(key)
        if job.key in self._keys:
            return queue is not None and self._bring_forward(queue, job, key, now)
        if queue is None:
            queue = self._queues[key] = _Queue(is_parked=key in self._parked)
        elif queue.overflows and (not queue.waiting or job.place > queue.waiting[-1].place):
            return False
        insort(queue.waiting, job, key=_place)
        self._keys[job.key] = key
        if len(queue.waiting) > self._group_limit:
            last = queue.waiting.pop()
            del self._keys[last.key]
            queue.overflows, queue.reload_below = True, self._group_limit // 4
            if last is job:
                return False
        self._arrange(key, queue, now)
        return True

    def take(self, now: float, allows: Callable[[TargetKey], bool]) -> JobRef | None:
        """The next job that may go, of a site that takes one. It is the caller's from here on."""
        self._wake(now)
        while self._turns:
            site, _ = self._turns.popitem(last=False)
            if not allows(site):
                self._held.add(site)  # until `release`
                continue
            job = self._take_of(site, now)
            if site in self._listed:
                self._turns[site] = None
            if job is not None:
                return job
        return None

    def reopen(self, site: TargetKey) -> None:
        """This site may take jobs again."""
        if site in self._held:
            self._held.discard(site)
            self._turns[site] = None

    def finish(self, key: JobKey, now: float) -> None:
        """It is over, or somebody else's: go on with its group."""
        self._put_back(key, None, now)

    def retry(self, key: JobKey, due: float, now: float, **news: str) -> None:
        """It is to be sent again; `news` is what else is known of it now."""
        self._put_back(key, {"due": due, "retrying": True, **news}, now)

    def block(self, key: JobKey, now: float) -> None:
        """It failed for good, and its group waits until a person has looked."""
        self._put_back(key, {"stuck": True}, now)

    def drop(self, key: JobKey, now: float) -> None:
        """Postgres did not let it go. What is true of its group has to be read."""
        where = self._keys.get(key)
        if isinstance(where, GroupKey):
            self._starved.add(where)
        self._put_back(key, None, now)

    def mark_stale(self, group: GroupKey) -> None:
        """There may be more of this group than is known here."""
        self._starved.add(group)

    @contextmanager
    def reading(self) -> Iterator[set[JobKey]]:
        """While Postgres is read: gathers the jobs of which something became meanwhile.

        What is read of these may be older than what the board knows.
        """
        changed: set[JobKey] = set()
        self._readings[id(changed)] = changed
        try:
            yield changed
        finally:
            del self._readings[id(changed)]

    def settle(
        self,
        group: GroupKey,
        jobs: list[JobRef],
        now: float,
        *,
        is_all: bool,
        changed: Collection[JobKey] = (),
    ) -> None:
        """What Postgres says of a group, first to last, takes the place of what was known.

        Only of those that `changed` while it was read, the board knows better.
        """
        self._starved.discard(group)
        queue = self._queues.get(group)
        if queue is None:
            if not jobs:
                return
            queue = self._queues[group] = _Queue(is_parked=group in self._parked)
        known = {job.key: job for job in queue.waiting}
        for key in known:
            del self._keys[key]
        taken = queue.taken.key if queue.taken else None
        told = (known.get(job.key) if job.key in changed else job for job in jobs)
        queue.waiting = [job for job in told if job is not None and job.key != taken]
        queue.overflows, queue.reload_below = not is_all, len(jobs) // 4
        self._keys.update((job.key, group) for job in queue.waiting)
        self._arrange(group, queue, now)

    def evict(
        self, now: float, until: float, room: int, is_hopeless: Callable[[TargetKey], bool]
    ) -> int:
        """Forget jobs that cannot go before `until`, as Postgres has them; how many.

        Of sites that are held, few stay if there is no hope; the others share the room.
        """
        self._wake(now)
        before, stayed = len(self._keys), Counter[TargetKey]()
        share = room // max(1, len(self._held))
        for key, queue in list(self._queues.items()):
            if queue.taken is not None:
                continue
            if queue.listed_target is None:
                stays = queue.wakes_at <= until
            elif queue.listed_target in self._held:
                stays = stayed[queue.listed_target] < (
                    MIN_KEPT_OF_FAILING_TARGET if is_hopeless(queue.listed_target) else share
                )
                stayed[queue.listed_target] += len(queue.waiting)
            else:
                stays = True
            if not stays:
                self._forget(key, queue)
        return before - len(self._keys)

    def park(self, groups: Collection[GroupKey], now: float) -> None:
        """Hold exactly these groups back."""
        before, self._parked = self._parked, frozenset(groups)
        for group in before ^ self._parked:
            queue = self._queues.get(group)
            if queue is not None:
                queue.is_parked = group in self._parked
                self._arrange(group, queue, now)

    def stale_groups(self, limit: int) -> list[GroupKey]:
        """Groups whose truth has to be read."""
        return list(islice(self._starved, limit))

    def blocked(self) -> Iterator[tuple[GroupKey, JobKey]]:
        """Groups that a failed job holds, each with that job."""
        return (
            (key, queue.waiting[0].key)
            for key, queue in self._queues.items()
            if queue.is_blocked and isinstance(key, GroupKey)
        )

    def groups(self) -> Iterator[tuple[GroupKey, "_Queue"]]:
        """Every group that something is known of."""
        return ((key, q) for key, q in self._queues.items() if isinstance(key, GroupKey))

    def next_due(self) -> float | None:
        """When to look again, if nothing else happens."""
        while self._due:
            at, _, key = self._due[0]
            queue = self._queues.get(key)
            if queue is not None and queue.wakes_at == at:
                return at
            heappop(self._due)
        return None

    @property
    def has_listed(self) -> bool:
        """Whether some job could go now, if its site takes it."""
        return bool(self._turns)

    def _bring_forward(self, queue: _Queue, job: JobRef, key: QueueKey, now: float) -> bool:
        """A known job may go sooner than was known, or elsewhere."""
        for at, known in enumerate(queue.waiting):
            if known.key == job.key:
                is_sooner = job.due < known.due or (known.stuck and not job.stuck)
                is_news = is_sooner or job.target != known.target
                if is_news:
                    queue.waiting[at] = job
                    self._arrange(key, queue, now)
                return is_news
        return False

    def _take_of(self, site: TargetKey, now: float) -> JobRef | None:
        """The first job of a site's queues whose turn it still is."""
        listed, taken = self._listed[site], None
        while listed and taken is None:
            key, _ = listed.popitem(last=False)
            queue = self._queues[key]
            queue.listed_target = None
            job = queue.next(now)
            if isinstance(job, JobRef) and target_key_of(job.tenant, job.target) == site:
                queue.waiting.remove(job)
                queue.taken = taken = job
            else:
                self._arrange(key, queue, now)  # another has fallen due since it was listed
        if not listed:
            del self._listed[site]
        return taken

    def _put_back(self, key: JobKey, change: dict[str, object] | None, now: float) -> None:
        where = self._keys.get(key)
        queue = self._queues.get(where) if where is not None else None
        if where is None or queue is None:
            return
        for changed in self._readings.values():
            changed.add(key)
        job = queue.taken
        if job is not None and job.key == key:
            queue.taken = None
            if change is not None:
                insort(queue.waiting, msgspec.structs.replace(job, **change), key=_place)
        else:
            queue.waiting = [other for other in queue.waiting if other.key != key]
            change = None
        if change is None:
            del self._keys[key]
        self._arrange(where, queue, now)

    def _arrange(self, key: QueueKey, queue: _Queue, now: float) -> None:
        """List a queue where its next job goes, or note when there will be one."""
        job = queue.next(now)
        if job == _NEVER and queue.waiting and queue.taken is None:
            # Nothing of it goes until a person lets it: it needs no more room than one job does.
            for gone in queue.shorten():
                del self._keys[gone.key]
        elif queue.overflows and len(queue.waiting) <= queue.reload_below:
            self._starved.add(cast("GroupKey", key))  # nothing else has so many
        site = target_key_of(job.tenant, job.target) if isinstance(job, JobRef) else None
        if site != queue.listed_target:
            self._list(key, queue, site)
        if queue.is_over:
            del self._queues[key]
        elif not isinstance(job, JobRef) and job < queue.wakes_at:
            queue.wakes_at = job
            heappush(self._due, (job, next(self._pushed), key))

    def _list(self, key: QueueKey, queue: _Queue, site: TargetKey | None) -> None:
        """Let a queue stand in the list of this site and of no other."""
        if queue.listed_target is not None:
            listed = self._listed[queue.listed_target]
            del listed[key]
            if not listed:
                del self._listed[queue.listed_target]
                self._turns.pop(queue.listed_target, None)
                self._held.discard(queue.listed_target)
        queue.listed_target = site
        if site is None:
            return
        if site not in self._listed:
            self._listed[site] = OrderedDict()
            self._turns[site] = None
        self._listed[site][key] = None

    def _forget(self, key: QueueKey, queue: _Queue) -> None:
        self._list(key, queue, None)
        for job in queue.waiting:
            del self._keys[job.key]
        self._starved.discard(cast("GroupKey", key))
        del self._queues[key]

    def _wake(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            at, _, key = heappop(self._due)
            queue = self._queues.get(key)
            if queue is not None and queue.wakes_at == at:
                queue.wakes_at = _NEVER
                self._arrange(key, queue, now)


def add_while_room(
    board: JobScheduler, jobs: Iterable[JobRef], now: float, room: int
) -> list[JobRef]:
    """Add as many jobs as there is room for; those that were left out."""
    rest = iter(jobs)
    for job in rest:
        if len(board) >= room and job.key not in board:
            return [job, *rest]
        board.add(job, now)
    return []
