"""Schedules the jobs of a dispatch pool in memory: by group order and due time.

The scheduler only proposes jobs; Postgres decides on each claim. A change that the scheduler has
missed costs one failed claim and never a delivery out of order.
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
"""Jobs that stay in memory for a target with an open breaker, so that one can probe it."""

QueueKey: TypeAlias = GroupKey | tuple[str, int]
"""A group, or a job without group as (id, tenant): this order never equals a GroupKey."""

_place = attrgetter("place")
_NEVER = float("inf")


class _Queue:
    """The jobs of one group, or a single job without a group."""

    __slots__ = (
        "is_parked", "listed_target", "overflows", "reload_below", "taken", "waiting", "wakes_at",
    )  # fmt: skip

    def __init__(self, *, is_parked: bool = False) -> None:
        self.waiting: list[JobRef] = []
        self.taken: JobRef | None = None
        self.is_parked = is_parked
        self.overflows = False  # Postgres has further jobs of this group
        self.reload_below = 0  # read the further jobs when at most this many are waiting
        self.listed_target: TargetKey | None = None  # the target whose list contains this queue
        self.wakes_at = _NEVER

    def next(self, now: float) -> JobRef | float:
        """Return the next job to send, or the time when there will be one.

        A BLOCK_ON_ERROR job is sent only as the first of its group; other jobs pass failed jobs. A
        job that was never sent blocks the jobs behind it until it is due.
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
        """Return whether a job that failed permanently blocks the jobs behind it."""
        return bool(self.waiting) and self.waiting[0].stuck

    def shorten(self) -> list[JobRef]:
        """Keep only the first job, as Postgres has the others; return the others."""
        gone, self.waiting = self.waiting[1:], self.waiting[:1]
        if gone:
            self.overflows, self.reload_below = True, 1
        return gone

    @property
    def is_over(self) -> bool:
        return not (self.waiting or self.taken or self.overflows)


class JobScheduler:
    """Selects the next job. A taken job stays known until its result is reported."""

    def __init__(self, group_limit: int = MAX_JOBS_PER_GROUP) -> None:
        self._group_limit = group_limit
        self._queues: dict[QueueKey, _Queue] = {}
        self._keys: dict[JobKey, QueueKey] = {}
        self._due: list[tuple[float, int, QueueKey]] = []
        self._pushed = count()
        # Queues with a job to send now, by target. Each such target is in `_turns` or in `_held`.
        self._listed: dict[TargetKey, OrderedDict[QueueKey, None]] = {}
        self._turns: OrderedDict[TargetKey, None] = OrderedDict()
        self._held: set[TargetKey] = set()
        self._parked: frozenset[GroupKey] = frozenset()
        self._stale: set[GroupKey] = set()
        self._readings: dict[int, set[JobKey]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: JobKey) -> bool:
        return key in self._keys

    def keys(self) -> list[JobKey]:
        return list(self._keys)

    def oldest_id(self) -> str | None:
        """Return the id of the oldest job: ids sort by time."""
        return min((key.job_id for key in self._keys), default=None)

    def knows(self, group: GroupKey) -> bool:
        return group in self._queues

    def add(self, job: JobRef, now: float) -> bool:
        """Add a job; return False if it is known, or if its group has its maximum in memory."""
        key: QueueKey = job.group_key or (job.job_id, job.tenant)
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

    def add_while_room(self, jobs: Iterable[JobRef], now: float, room: int) -> list[JobRef]:
        """Add jobs until `room` are known; return those that were left out."""
        rest = iter(jobs)
        for job in rest:
            if len(self._keys) >= room and job.key not in self._keys:
                return [job, *rest]
            self.add(job, now)
        return []

    def take(self, now: float, allows: Callable[[TargetKey], bool]) -> JobRef | None:
        """Take the next job to send whose target `allows` it."""
        self._wake(now)
        while self._turns:
            target, _ = self._turns.popitem(last=False)
            if not allows(target):
                self._held.add(target)  # until `reopen`
                continue
            job = self._take_of(target, now)
            if target in self._listed:
                self._turns[target] = None
            if job is not None:
                return job
        return None

    def reopen(self, target: TargetKey) -> None:
        """Offer jobs again to a target that refused one."""
        if target in self._held:
            self._held.discard(target)
            self._turns[target] = None

    def finish(self, key: JobKey, now: float) -> None:
        """Forget a job that has ended or moved to another pool; continue with its group."""
        self._put_back(key, None, now)

    def retry(self, key: JobKey, due: float, now: float, **changes: str) -> None:
        """Put a job back to be sent again at `due`, with its changed fields."""
        self._put_back(key, {"due": due, "retrying": True, **changes}, now)

    def block(self, key: JobKey, now: float) -> None:
        """Put back a job that failed permanently: its group waits for an operator."""
        self._put_back(key, {"stuck": True}, now)

    def drop(self, key: JobKey, now: float) -> None:
        """Forget a job whose claim failed, and have its group read again."""
        where = self._keys.get(key)
        if isinstance(where, GroupKey):
            self._stale.add(where)
        self._put_back(key, None, now)

    def mark_stale(self, group: GroupKey) -> None:
        """Have a group read again: Postgres may have more jobs of it."""
        self._stale.add(group)

    @contextmanager
    def reading(self) -> Iterator[set[JobKey]]:
        """Collect the jobs that change while Postgres is read.

        What is read of these jobs may be older than what the scheduler knows.
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
        """Replace what is known of a group by what Postgres has, first to last.

        Jobs that `changed` while it was read stay as the scheduler knows them.
        """
        self._stale.discard(group)
        queue = self._queues.get(group)
        if queue is None:
            if not jobs:
                return
            queue = self._queues[group] = _Queue(is_parked=group in self._parked)
        known = {job.key: job for job in queue.waiting}
        for key in known:
            del self._keys[key]
        taken = queue.taken.key if queue.taken else None
        current = (known.get(job.key) if job.key in changed else job for job in jobs)
        queue.waiting = [job for job in current if job is not None and job.key != taken]
        queue.overflows, queue.reload_below = not is_all, len(jobs) // 4
        self._keys.update((job.key, group) for job in queue.waiting)
        self._arrange(group, queue, now)

    def evict(
        self, now: float, until: float, room: int, is_failing: Callable[[TargetKey], bool]
    ) -> int:
        """Forget jobs that cannot be sent before `until`, as Postgres has them; return how many.

        A held target keeps few jobs if it is failing; the other held targets share the room.
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
                    MIN_KEPT_OF_FAILING_TARGET if is_failing(queue.listed_target) else share
                )
                stayed[queue.listed_target] += len(queue.waiting)
            else:
                stays = True
            if not stays:
                self._forget(key, queue)
        return before - len(self._keys)

    def park(self, groups: Collection[GroupKey], now: float) -> None:
        """Stop sending jobs of these groups, and resume all other groups."""
        before, self._parked = self._parked, frozenset(groups)
        for group in before ^ self._parked:
            queue = self._queues.get(group)
            if queue is not None:
                queue.is_parked = group in self._parked
                self._arrange(group, queue, now)

    def stale_groups(self, limit: int) -> list[GroupKey]:
        return list(islice(self._stale, limit))

    def blocked(self) -> Iterator[tuple[GroupKey, JobKey]]:
        """Yield each group that a failed job blocks, with that job."""
        return (
            (key, queue.waiting[0].key)
            for key, queue in self._queues.items()
            if queue.is_blocked and isinstance(key, GroupKey)
        )

    def groups(self) -> Iterator[tuple[GroupKey, "_Queue"]]:
        return ((key, q) for key, q in self._queues.items() if isinstance(key, GroupKey))

    def next_due(self) -> float | None:
        """Return when the next job is due."""
        while self._due:
            at, _, key = self._due[0]
            queue = self._queues.get(key)
            if queue is not None and queue.wakes_at == at:
                return at
            heappop(self._due)
        return None

    @property
    def has_listed(self) -> bool:
        """Return whether a job could be sent now if its target allows it."""
        return bool(self._turns)

    def _bring_forward(self, queue: _Queue, job: JobRef, key: QueueKey, now: float) -> bool:
        """Replace a known job that is now due sooner or has another target."""
        for at, known in enumerate(queue.waiting):
            if known.key == job.key:
                is_sooner = job.due < known.due or (known.stuck and not job.stuck)
                is_changed = is_sooner or job.target != known.target
                if is_changed:
                    queue.waiting[at] = job
                    self._arrange(key, queue, now)
                return is_changed
        return False

    def _take_of(self, target: TargetKey, now: float) -> JobRef | None:
        """Take the next job of the queues that are listed under a target."""
        listed, taken = self._listed[target], None
        while listed and taken is None:
            key, _ = listed.popitem(last=False)
            queue = self._queues[key]
            queue.listed_target = None
            job = queue.next(now)
            if isinstance(job, JobRef) and target_key_of(job.tenant, job.target) == target:
                queue.waiting.remove(job)
                queue.taken = taken = job
            else:
                self._arrange(
                    key, queue, now
                )  # another job has become due since the queue was listed
        if not listed:
            del self._listed[target]
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
        """List a queue under the target of its next job, or schedule when to look again."""
        job = queue.next(now)
        if job == _NEVER and queue.waiting and queue.taken is None:
            # No job is sent until an operator acts: one job is enough to remember the group.
            for gone in queue.shorten():
                del self._keys[gone.key]
        elif queue.overflows and len(queue.waiting) <= queue.reload_below:
            self._stale.add(cast("GroupKey", key))  # only a group overflows
        target = target_key_of(job.tenant, job.target) if isinstance(job, JobRef) else None
        if target != queue.listed_target:
            self._list(key, queue, target)
        if queue.is_over:
            del self._queues[key]
        elif not isinstance(job, JobRef) and job < queue.wakes_at:
            queue.wakes_at = job
            heappush(self._due, (job, next(self._pushed), key))

    def _list(self, key: QueueKey, queue: _Queue, target: TargetKey | None) -> None:
        """Move a queue to the list of this target."""
        if queue.listed_target is not None:
            listed = self._listed[queue.listed_target]
            del listed[key]
            if not listed:
                del self._listed[queue.listed_target]
                self._turns.pop(queue.listed_target, None)
                self._held.discard(queue.listed_target)
        queue.listed_target = target
        if target is None:
            return
        if target not in self._listed:
            self._listed[target] = OrderedDict()
            self._turns[target] = None
        self._listed[target][key] = None

    def _forget(self, key: QueueKey, queue: _Queue) -> None:
        self._list(key, queue, None)
        for job in queue.waiting:
            del self._keys[job.key]
        self._stale.discard(cast("GroupKey", key))
        del self._queues[key]

    def _wake(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            at, _, key = heappop(self._due)
            queue = self._queues.get(key)
            if queue is not None and queue.wakes_at == at:
                queue.wakes_at = _NEVER
                self._arrange(key, queue, now)
