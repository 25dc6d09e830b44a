from typing import Any

import pytest

from core.waits.incoming_event import IncomingEvent, MissingId, MissingIds
from core.waits.spec import DEFAULT_IDS, IdFields, Source
from serve_app.http.event_replies import missing_id_problem
from services.waits.intake import contradicts, repeats
from tests.unit.serve_app.container_fixtures import ADDRESS

CUSTOM = IdFields("ref.id", "ref.run", "X-Ref", "X-Run")


def arrival(
    raw: bytes = b"{}", body: Any = None, headers: dict[str, str] | None = None, **more: Any
) -> IncomingEvent:
    return IncomingEvent(
        source=more.get("source", Source.API),
        label="bank",
        raw=raw,
        body={} if body is None else body,
        headers=headers or {},
        event_id=more.get("event_id"),
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (arrival(), False),
        (arrival(body={"correlation_id": "order", "execution_id": "run"}), False),
        (arrival(body={"correlation_id": "other"}), True),
        (arrival(body={"execution_id": "other"}), True),
        (arrival(headers={"x-correlation-id": "other"}), True),
        (arrival(headers={"x-execution-id": "run"}, body={"execution_id": "other"}), False),
        (arrival(body={"correlation_id": ["cannot be an id"]}), False),
        (arrival(body=[1]), False),
    ],
)
def test_a_token_s_holder_may_repeat_its_ids_and_name_no_others(
    given: IncomingEvent, expected: bool
) -> None:
    assert contradicts(given, DEFAULT_IDS, ADDRESS) is expected


def test_ids_under_configured_names_are_recognised() -> None:
    given = arrival(body={"ref": {"id": "order"}})
    assert repeats(given, CUSTOM, ADDRESS)
    assert not repeats(given, DEFAULT_IDS, ADDRESS)
    assert contradicts(arrival(headers={"x-run": "other"}), CUSTOM, ADDRESS)


def test_missing_ids_are_named_with_the_places_where_they_belong() -> None:
    problem = missing_id_problem(
        MissingIds(
            (
                MissingId("correlation_id", "header X-C or body field correlation_id"),
                MissingId("execution_id", "header X-E", "is empty"),
            )
        )
    )
    assert (problem.status, problem.code) == (400, "missing_id")
    assert problem.detail == (
        "correlation_id is missing: send it in header X-C or body field correlation_id; "
        "execution_id is empty: send it in header X-E"
    )
    assert [error.field for error in problem.field_errors] == ["correlation_id", "execution_id"]
