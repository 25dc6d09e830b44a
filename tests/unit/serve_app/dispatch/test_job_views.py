"""Jobs as callers see them."""

import json
from typing import Any

import pytest

from core.dispatch.job import JobStatus, Kind
from core.dispatch.job_actions import Fate
from core.shared.errors import NotFoundError
from core.waits.config import MASK
from serve_app.dispatch.job_service import JobActionRound, check_applied
from serve_app.dispatch.job_views import JobItem, JobOptions, JobsChanged, JobsRequeued, JobView
from serve_app.http.models import View
from serve_app.http.problems import ProblemError
from storage.dispatch.job_actions import JobActionResult
from storage.dispatch.jobs import FilterOption, Job
from tests.unit.serve_app.dispatch.job_fixtures import NOW, attempt, job


def shown(view: View) -> Any:
    return json.loads(view.to_json())


def item(row: Job) -> Any:
    return shown(JobItem.of(row))


def test_a_job_is_shown_without_its_secrets() -> None:
    found = item(job(headers={"X-Key": "secret"}, has_auth=True, metadata=(("a", "b"),)))
    assert found["headers"] == {"X-Key": MASK}
    assert found["hasAuth"]
    assert found["metadata"] == [{"key": "a", "value": "b"}]
    assert (found["protocol"], found["retryStrategy"]) == ("HTTP_WEBHOOK", "exponential")
    assert "secret" not in json.dumps(found)


def test_an_events_job_has_its_key_from_what_it_brings_to_whom() -> None:
    events = job(kind=Kind.EVENT, event_id="E", subscription_id="sub_1")
    assert item(events)["idempotencyKey"] == "E:sub_1"
    assert item(job(idempotency_key="mine"))["idempotencyKey"] == "mine"


@pytest.mark.parametrize(
    ("payload", "as_json", "encoding"),
    [
        (b'{"n":1.10}', b'{"n":1.10}', "json"),
        (b"hello", b'"hello"', "text"),
        (b"\xff\x00", b'"/wA="', "base64"),
        (None, b"null", "none"),
    ],
)
def test_a_payload_is_shown_as_what_it_is(
    payload: bytes | None, as_json: bytes, encoding: str
) -> None:
    raw = JobView.of_job(job(payload=payload), [attempt()]).to_json()
    assert json.loads(raw)["payloadEncoding"] == encoding
    assert b'"payload":' + as_json in raw


def test_an_attempt_tells_when_it_ended() -> None:
    (found,) = shown(JobView.of_job(job(), [attempt(response_code=200)]))["attempts"]
    assert (found["id"], found["sendNumber"]) == ("0MA9V0KF5G01Z-2", 2)
    assert found["attemptedAt"] == "2023-11-14T22:13:20.000000Z"
    assert found["completedAt"] == "2023-11-14T22:13:21.500000Z"


def test_how_long_it_took_is_told_of_what_was_delivered() -> None:
    done = job(status=JobStatus.COMPLETED, completed_at=NOW + 2.5)
    assert item(done)["durationMillis"] == 2_500
    cancelled = job(status=JobStatus.CANCELLED, completed_at=NOW + 2.5)
    assert item(cancelled)["durationMillis"] is None


def test_what_cannot_be_done_is_told_with_how_the_job_stands() -> None:
    check_applied(JobActionResult("J", Fate.DONE, JobStatus.ERROR))
    with pytest.raises(NotFoundError):
        check_applied(JobActionResult("J", Fate.UNKNOWN))
    for fate in set(Fate) - {Fate.UNKNOWN, Fate.DONE}:
        with pytest.raises(ProblemError) as refused:
            check_applied(JobActionResult("J", fate, JobStatus.QUEUED))
        document = refused.value.problem.document()
        assert (document["status"], document["code"]) == (409, fate)
        assert document["detail"].endswith("job J is QUEUED")


def test_many_jobs_are_counted_and_the_others_named() -> None:
    results = [
        JobActionResult("A", Fate.DONE, JobStatus.ERROR),
        JobActionResult("B", Fate.IN_PROGRESS, JobStatus.IN_PROGRESS),
        JobActionResult("C", Fate.UNKNOWN),
    ]
    document = shown(JobsRequeued.of(JobActionRound(results, 5, "C")))
    assert (document["changed"], document["requeued"]) == (1, 1)
    assert (document["remaining"], document["nextCursor"]) == (5, "C")
    assert document["refused"] == [
        {"id": "B", "result": "in_progress", "status": "IN_PROGRESS"},
        {"id": "C", "result": "unknown"},
    ]
    assert "requeued" not in shown(JobsChanged.of(JobActionRound(results)))


def test_options_are_sorted_into_their_lists() -> None:
    found = [FilterOption("code", "x", "x"), FilterOption("pool", "p", "Pool")]
    document = shown(JobOptions.of_options(found))
    assert document["pools"] == [{"value": "p", "label": "Pool"}]
    assert document["sources"] == []
    assert {"value": "IN_PROGRESS", "label": "In progress"} in document["statuses"]
