"""Jobs as callers see them."""

import msgspec
import pytest

from core.dispatch.job import JobStatus, Kind
from core.dispatch.job_actions import Fate, JobAction
from core.shared.errors import NotFoundError
from serve_app.dispatch.job_rendering import (
    changed_document,
    job_action_error,
    job_document,
    job_item,
    options_document,
)
from serve_app.dispatch.job_views import JobItem, JobOptions, JobsRequeued, JobView
from serve_app.gathers.rendering import MASK
from serve_app.http.problems import ProblemError
from storage.dispatch.job_actions import JobActionResult
from storage.dispatch.jobs import FilterOption
from tests.unit.serve_app.dispatch.job_fixtures import NOW, attempt, job


def test_a_job_is_shown_without_its_secrets() -> None:
    shown = job_item(job(headers={"X-Key": "secret"}, has_auth=True, metadata=(("a", "b"),)))
    JobItem.model_validate(shown)
    assert shown["headers"] == {"X-Key": MASK}
    assert shown["hasAuth"]
    assert shown["metadata"] == [{"key": "a", "value": "b"}]
    assert b"secret" not in msgspec.json.encode(shown)


def test_an_events_job_has_its_key_from_what_it_brings_to_whom() -> None:
    events = job(kind=Kind.EVENT, event_id="E", subscription_id="sub_1")
    assert job_item(events)["idempotencyKey"] == "E:sub_1"
    assert job_item(job(idempotency_key="mine"))["idempotencyKey"] == "mine"


@pytest.mark.parametrize(
    ("payload", "shown", "encoding"),
    [
        (b'{"n":1.10}', b'{"n":1.10}', "json"),
        (b"hello", b'"hello"', "text"),
        (b"\xff\x00", b'"/wA="', "base64"),
        (None, b"null", "none"),
    ],
)
def test_a_payload_is_shown_as_what_it_is(
    payload: bytes | None, shown: bytes, encoding: str
) -> None:
    document = job_document(job(payload=payload), [attempt()])
    assert document["payloadEncoding"] == encoding
    assert msgspec.json.encode(document["payload"]) == shown
    JobView.model_validate_json(msgspec.json.encode(document))


def test_an_attempt_tells_when_it_ended() -> None:
    (shown,) = job_document(job(), [attempt(response_code=200)])["attempts"]
    assert (shown["id"], shown["sendNumber"]) == ("0MA9V0KF5G01Z-2", 2)
    assert shown["attemptedAt"] == "2023-11-14T22:13:20.000000Z"
    assert shown["completedAt"] == "2023-11-14T22:13:21.500000Z"


def test_how_long_it_took_is_told_of_what_was_delivered() -> None:
    done = job(status=JobStatus.COMPLETED, completed_at=NOW + 2.5)
    assert job_item(done)["durationMillis"] == 2_500
    cancelled = job(status=JobStatus.CANCELLED, completed_at=NOW + 2.5)
    assert job_item(cancelled)["durationMillis"] is None


def test_what_cannot_be_done_is_told_with_how_the_job_stands() -> None:
    assert isinstance(job_action_error(JobActionResult("J", Fate.UNKNOWN)), NotFoundError)
    for fate in Fate:
        if fate not in {Fate.UNKNOWN, Fate.DONE}:
            error = job_action_error(JobActionResult("J", fate, JobStatus.QUEUED))
            assert isinstance(error, ProblemError)
            document = error.problem.document()
            assert (document["status"], document["code"]) == (409, fate)
            assert document["detail"].endswith("job J is QUEUED")


def test_many_jobs_are_counted_and_the_others_named() -> None:
    told = [
        JobActionResult("A", Fate.DONE, JobStatus.ERROR),
        JobActionResult("B", Fate.IN_PROGRESS, JobStatus.IN_PROGRESS),
        JobActionResult("C", Fate.UNKNOWN),
    ]
    document = changed_document(JobAction.REQUEUE, told, 5, "C")
    JobsRequeued.model_validate(document)
    assert (document["changed"], document["requeued"]) == (1, 1)
    assert document["refused"] == [
        {"id": "B", "result": "in_progress", "status": "IN_PROGRESS"},
        {"id": "C", "result": "unknown"},
    ]
    assert "requeued" not in changed_document(JobAction.CANCEL, told, 0, None)


def test_options_are_sorted_into_their_lists() -> None:
    document = options_document([FilterOption("code", "x", "x"), FilterOption("pool", "p", "Pool")])
    JobOptions.model_validate(document)
    assert document["pools"] == [{"value": "p", "label": "Pool"}]
    assert document["sources"] == []
    assert {"value": "IN_PROGRESS", "label": "In progress"} in document["statuses"]
