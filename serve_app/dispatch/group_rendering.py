"""Dispatch groups to the documents callers get."""

from core.dispatch.groups import GroupMember, GroupState, head_of, is_blocked, state_of
from core.shared.timestamps import to_iso
from serve_app.http.models import Document
from storage.dispatch.groups import Group, Parking


def group_state_of(group: Group, now: float) -> GroupState:
    return state_of(group.failed, group.next_up, parked=group.parking is not None, now=now)


def group_document(group: Group, now: float) -> Document:
    head = head_of(group.failed, group.next_up)
    return {
        "name": group.place.name,
        "dispatchPoolId": group.pool_id,
        "dispatchPoolCode": group.pool_code,
        "state": group_state_of(group, now),
        "blocked": is_blocked(group.failed, group.next_up),
        "parked": None if group.parking is None else _parking(group.parking),
        "waiting": group.waiting,
        "head": None if head is None else _head(head, now),
    }


def _head(head: GroupMember, now: float) -> Document:
    return {
        "id": head.job_id,
        "status": head.status,
        "mode": head.mode,
        "attemptCount": head.attempt_count,
        "scheduledFor": None if head.scheduled_for is None else to_iso(head.scheduled_for),
        "lastError": head.last_error,
        "createdAt": to_iso(head.created_at),
        "ageSeconds": round(max(0.0, now - head.created_at), 3),
    }


def _parking(parking: Parking) -> Document:
    return {
        "reason": parking.reason,
        "by": parking.parked_by,
        "at": to_iso(parking.parked_at),
    }
