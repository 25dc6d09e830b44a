"""Jobs, groups and pools as mappers get them."""

from dataclasses import fields
from typing import Any

from core.dispatch.job import JobStatus, Kind, Mode, QueueState
from core.dispatch.pool import PoolStatus
from storage.dispatch.jobs import Attempt, Job
from storage.dispatch.pools import PoolRow

NOW = 1_700_000_000.0


def job(**given: Any) -> Job:
    """A job that waits."""
    usual: dict[str, Any] = {
        "job_id": "0MA9V0KF5G01Z",
        "position": 7,
        "pool_no": 1,
        "pool_id": "dpl_default",
        "pool_code": "default",
        "kind": Kind.TASK,
        "code": "shop:orders:order:ship",
        "source": "test",
        "mode": Mode.IMMEDIATE,
        "sequence": 99,
        "max_retries": 3,
        "timeout_seconds": 30,
        "data_only": True,
        "status": JobStatus.QUEUED,
        "standing": QueueState.OPEN,
        "attempt_count": 0,
        "sends": 0,
        "target_url": "http://127.0.0.1:9/",
        "content_type": "application/json",
        "headers": {},
        "metadata": (),
        "has_auth": False,
        "created_at": NOW,
        "updated_at": NOW,
    }
    missing = {one.name for one in fields(Job)} - set(usual)
    return Job(**dict.fromkeys(missing) | usual | given)


def attempt(**given: Any) -> Attempt:
    """One that succeeded."""
    usual: dict[str, Any] = {
        "job_id": "0MA9V0KF5G01Z",
        "send_no": 2,
        "attempt_number": 1,
        "attempted_at": NOW,
        "duration_ms": 1_500,
        "status": "SUCCESS",
    }
    missing = {one.name for one in fields(Attempt)} - set(usual)
    return Attempt(**dict.fromkeys(missing) | usual | given)


def pool_row(**fields: Any) -> PoolRow:
    """The pool that everybody shares."""
    usual: dict[str, Any] = {
        "pool_no": 1,
        "tenant": 0,
        "pool_id": "dpl_default",
        "code": "default",
        "name": "Default",
        "description": None,
        "rate_limit": None,
        "concurrency": 10,
        "status": PoolStatus.ACTIVE,
    }
    return PoolRow(**usual | fields)
