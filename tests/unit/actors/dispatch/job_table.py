"""The jobs of a pool in a Postgres of Python: slow, away or broken as a test wants it."""

import asyncio
from bisect import bisect, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from actors.dispatch.dispatcher import LEASE_GRACE
from core.dispatch.claim import ClaimedJob
from core.dispatch.job import GroupKey, JobKey, JobRef, JobStatus, Kind, Mode, QueueState
from storage.dispatch.job_queue import JobResult

A, B = "http://a.example", "http://b.example"
BLOCK, NEXT = Mode.BLOCK_ON_ERROR, Mode.NEXT_ON_ERROR


def clock() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class FakeJobRow:
    """A job as it is stored."""

    position: int
    target: str = A
    mode: Mode = Mode.IMMEDIATE
    group: str | None = None
    tenant: int = 1
    sequence: int = 99
    max_retries: int = 3
    timeout: int = 30
    scheduled_for: float = 0.0
    expires_at: float = 0.0
    status: JobStatus = JobStatus.QUEUED
    standing: QueueState = QueueState.OPEN
    sends: int = 0
    attempts: int = 0
    lease_until: float = 0.0
    owner: str = ""
    subscription_id: str | None = None
    size: int = 0

    @property
    def key(self) -> JobKey:
        return JobKey(self.tenant, f"j{self.position}")

    @property
    def place(self) -> tuple[int, int]:
        return self.sequence, self.position

    @property
    def is_open(self) -> bool:
        return self.standing in (QueueState.OPEN, QueueState.UNCLAIMED)

    def to_job_ref(self) -> JobRef:
        under_way = self.status is JobStatus.IN_PROGRESS
        return JobRef(
            tenant=self.tenant,
            job_id=self.key.job_id,
            position=self.position,
            target=self.target,
            mode=self.mode,
            group=self.group,
            sequence=self.sequence,
            due=self.lease_until if under_way else self.scheduled_for,
            retrying=self.sends > 0 and not under_way,
            stuck=self.standing is QueueState.ERROR,
            size=self.size,
        )

    def to_claimed(self) -> ClaimedJob:
        return ClaimedJob(
            tenant=self.tenant,
            job_id=self.key.job_id,
            send_no=self.sends,
            attempt_count=self.attempts,
            max_retries=self.max_retries,
            timeout_seconds=self.timeout,
            kind=Kind.TASK,
            code="task",
            target_url=self.target,
            data_only=True,
            created_at=0.0,
            expires_at=self.expires_at,
            subscription_id=self.subscription_id,
        )


class FakeJobQueue:
    """The statements of storage/dispatch/job_queue.py, each in effect halfway through."""

    def __init__(self, owner: str = "me") -> None:
        self.rows: dict[JobKey, FakeJobRow] = {}
        self._ordered: list[FakeJobRow] = []
        self._groups: dict[GroupKey, list[FakeJobRow]] = defaultdict(list)
        self.parked: set[GroupKey] = set()
        self.owner = owner
        self.latency: dict[str, float] = {}
        self.away_until = 0.0
        self.loses_answers = False
        self.chokes_on: JobKey | None = None
        self.calls: Counter[str] = Counter()

    def as_seen_by(self, owner: str) -> "FakeJobQueue":
        other = FakeJobQueue(owner)
        other.rows, other.parked = self.rows, self.parked
        other._ordered, other._groups = self._ordered, self._groups
        return other

    def store(self, *rows: FakeJobRow) -> list[JobRef]:
        for row in rows:
            self.rows[row.key] = row
            insort(self._ordered, row, key=lambda one: one.position)
            if group := row.to_job_ref().group_key:
                insort(self._groups[group], row, key=lambda one: one.place)
        return [row.to_job_ref() for row in rows]

    def of(self, group: GroupKey) -> list[FakeJobRow]:
        """Those that are to be done, and those that hold them."""
        return [
            row
            for row in self._groups[group]
            if row.is_open or (row.standing is QueueState.ERROR and row.mode is not NEXT)
        ]

    def statuses(self) -> Counter[str]:
        return Counter(row.status.value for row in self.rows.values())

    async def claim(self, keys: Sequence[JobKey]) -> list[ClaimedJob]:
        return await self._run("claim", lambda: [*self._claim(keys)])

    async def finish(self, results: Sequence[JobResult]) -> dict[JobKey, float]:
        return await self._run("finish", lambda: self._finish(results))

    async def scan(self, after: int, limit: int) -> list[JobRef]:
        return await self._list("scan", after, limit, lambda row: row.is_open)

    async def unclaimed(self, after: int, limit: int) -> list[JobRef]:
        return await self._list(
            "again", after, limit, lambda row: row.standing is QueueState.UNCLAIMED
        )

    async def find(self, keys: Sequence[JobKey]) -> list[JobRef]:
        found = [self.rows[key] for key in keys if key in self.rows]
        return await self._run("find", lambda: [row.to_job_ref() for row in found if row.is_open])

    async def read_groups(self, groups: list[GroupKey], limit: int) -> dict[GroupKey, list[JobRef]]:
        return await self._run(
            "read_groups",
            lambda: {g: [row.to_job_ref() for row in self.of(g)[:limit]] for g in groups},
        )

    async def not_failed(self, keys: Sequence[JobKey]) -> list[JobKey]:
        return await self._run(
            "not_failed",
            lambda: [key for key in keys if self.rows[key].standing is not QueueState.ERROR],
        )

    async def expire(self, limit: int) -> list[JobKey]:
        return await self._run("expire", lambda: [*islice(self._expire(), limit)])

    async def parked_groups(self) -> set[GroupKey]:
        return await self._run("parked_groups", lambda: set(self.parked))

    async def _list(
        self, name: str, after: int, limit: int, wanted: Callable[[FakeJobRow], bool]
    ) -> list[JobRef]:
        def read() -> list[JobRef]:
            at = bisect(self._ordered, after, key=lambda row: row.position)
            rows = (row for row in islice(self._ordered, at, None) if wanted(row))
            return [row.to_job_ref() for row in islice(rows, limit)]

        return await self._run(name, read)

    async def _run(self, name: str, work: Callable[[], Any]) -> Any:
        self.calls[name] += 1
        half = self.latency.get(name, 0.004) / 2
        await asyncio.sleep(half)
        if clock() < self.away_until:
            raise ConnectionRefusedError("Postgres is away")
        done = work()
        await asyncio.sleep(half)
        if self.loses_answers:
            raise ConnectionResetError("the answer is lost")
        return done

    def _claim(self, keys: Iterable[JobKey]) -> Iterable[ClaimedJob]:
        for key in keys:
            row = self.rows.get(key)
            if row is not None and row.is_open and self._may_go(row):
                row.status, row.standing = JobStatus.IN_PROGRESS, QueueState.OPEN
                row.sends += 1
                row.owner = self.owner
                row.lease_until = clock() + row.timeout + LEASE_GRACE
                yield row.to_claimed()

    def _may_go(self, row: FakeJobRow) -> bool:
        under_way = row.status is JobStatus.IN_PROGRESS
        if under_way and row.lease_until >= clock():
            return False
        if row.scheduled_for >= clock() + 0.25:
            return False
        group = row.to_job_ref().group_key
        before = [] if group is None else [one for one in self.of(group) if one.place < row.place]
        if row.mode is Mode.BLOCK_ON_ERROR:
            return not before
        return all(
            one.standing is QueueState.ERROR
            or (one.sends > 0 and one.status is not JobStatus.IN_PROGRESS)
            for one in before
        )

    def _expire(self) -> Iterable[JobKey]:
        for row in sorted(self._ordered, key=lambda one: one.expires_at):
            under_way = row.status is JobStatus.IN_PROGRESS and row.lease_until >= clock()
            if row.is_open and 0 < row.expires_at <= clock() and not under_way:
                row.status, row.standing = JobStatus.EXPIRED, QueueState.DONE
                yield row.key

    def _finish(self, results: Sequence[JobResult]) -> dict[JobKey, float]:
        if any(result.key == self.chokes_on for result in results):
            raise ValueError("a letter that no text has")
        kept = {}
        for result in results:
            row = self.rows[result.key]
            if row.status is JobStatus.IN_PROGRESS and row.sends == result.send_no:
                row.status, row.standing = result.step.status, result.step.standing
                row.attempts = result.step.attempt_count
                wait = result.step.wait
                row.scheduled_for = 0.0 if wait is None else clock() + wait
                kept[result.key] = row.scheduled_for
        return kept


def jobs(numbers: Iterable[int], **fields: Any) -> list[FakeJobRow]:
    return [FakeJobRow(number, **fields) for number in numbers]
