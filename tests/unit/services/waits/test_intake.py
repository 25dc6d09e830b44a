from typing import Any

import pytest

from core.waits.incoming_event import IncomingEvent, MissingId
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


def test_a_missing_id_is_named_with_the_places_it_was_looked_for() -> None:
    problem = missing_id_problem(
        MissingId("correlation_id", ("header X-C", "body field correlation_id"))
    )
    assert (problem.status, problem.code) == (400, "missing_id")
    for part in ("correlation_id", "header X-C", "body field"):
        assert part in problem.detail
    assert problem.field_errors[0].field == "correlation_id"


def test_what_cannot_be_an_id_is_told_apart_from_nothing() -> None:
    problem = missing_id_problem(MissingId("execution_id", ("header X-E",), "list"))
    assert "cannot be an id" in problem.detail
    assert problem.field_errors[0].got == "list"
