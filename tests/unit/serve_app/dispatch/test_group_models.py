"""Groups as callers see them, and where their listings go on."""

import json
from typing import Any

import pytest

from core.dispatch.groups import GroupMember
from core.dispatch.job import JobStatus, Mode
from core.shared.errors import InvalidError
from serve_app.dispatch.group_models import GroupView
from serve_app.http.cursors import (
    group_cursor,
    group_job_cursor,
    read_group_cursor,
    read_group_job_cursor,
)
from storage.dispatch.groups import FRONT, START, Group, GroupPosition, Parking, PoolGroupKey

NOW = 1_700_000_000.0
PLACE = PoolGroupKey(1, "order-processor:order/7:ä")


def member(position: int, status: JobStatus) -> GroupMember:
    return GroupMember(
        job_id=f"J{position}",
        status=status,
        mode=Mode.BLOCK_ON_ERROR,
        sequence=99,
        position=position,
        created_at=NOW - 61.5,
        last_error="HTTP 500" if status is JobStatus.ERROR else None,
    )


def group(**fields: object) -> Group:
    return Group(place=PLACE, pool_id="dpl_1", pool_code="p", waiting=1, **fields)  # type: ignore[arg-type]


def render(one: Group) -> Any:
    return json.loads(GroupView.of_group(one, NOW).to_json())


def test_a_blocked_group_shows_what_blocks_it() -> None:
    failed, next_up = member(1, JobStatus.ERROR), member(2, JobStatus.QUEUED)
    shown = render(group(failed=failed, next_up=next_up))
    assert (shown["name"], shown["state"], shown["blocked"]) == (PLACE.name, "blocked", True)
    assert shown["head"]["id"] == "J1"
    assert shown["head"]["ageSeconds"] == 61.5
    assert shown["head"]["lastError"] == "HTTP 500"


def test_a_parked_group_shows_who_holds_it() -> None:
    shown = render(group(parking=Parking("why", "me", NOW)))
    assert (shown["state"], shown["blocked"], shown["head"]) == ("parked", False, None)
    assert shown["parked"] == {"reason": "why", "by": "me", "at": "2023-11-14T22:13:20.000000Z"}


def test_cursors_lead_back_to_where_they_were() -> None:
    assert read_group_cursor(group_cursor(PLACE)) == PLACE
    assert read_group_cursor(None) == START
    place = GroupPosition(2**31 - 1, 2**53)
    assert read_group_job_cursor(group_job_cursor(place)) == place
    assert read_group_job_cursor(None) == FRONT


@pytest.mark.parametrize("text", ["", "x", "AAAA", "MTI=", "LTE6Zw==", "MTox\u00e9", "/w=="])
def test_a_group_cursor_of_ones_own_is_refused(text: str) -> None:
    with pytest.raises(InvalidError):
        read_group_cursor(text)


@pytest.mark.parametrize("text", ["", "1", "1.", ".1", "-1.1", "1.-1", "9999999999.1", "1.1e3"])
def test_a_place_cursor_of_ones_own_is_refused(text: str) -> None:
    with pytest.raises(InvalidError):
        read_group_job_cursor(text)
