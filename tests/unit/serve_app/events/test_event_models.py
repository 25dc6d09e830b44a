import pytest
from pydantic import ValidationError

from serve_app.events.event_models import EventQuery
from serve_app.events.events import Shape, shape_of
from serve_app.http.problems import ProblemError

CE = {"ce-specversion": "1.0"}


@pytest.mark.parametrize(
    ("headers", "shape"),
    [
        ({}, Shape.PLAIN),
        ({"content-type": "application/json; charset=utf-8"}, Shape.PLAIN),
        ({"content-type": "application/vnd.order+json"}, Shape.PLAIN),
        ({"content-type": "application/cloudevents+json; charset=UTF-8"}, Shape.STRUCTURED),
        ({"content-type": "Application/CloudEvents-Batch+JSON"}, Shape.BATCH),
        (CE, Shape.BINARY),
        ({"ce-type": "x"}, Shape.BINARY),
        (CE | {"content-type": "application/json"}, Shape.BINARY),
        (CE | {"content-type": "text/xml"}, Shape.BINARY),
        # What the media type says goes first.
        (CE | {"content-type": "application/cloudevents+json"}, Shape.STRUCTURED),
    ],
)
def test_the_headers_tell_how_events_are_written(headers: dict[str, str], shape: Shape) -> None:
    assert shape_of(headers) is shape


@pytest.mark.parametrize(
    "content_type",
    ["application/cloudevents+xml", "application/cloudevents", "text/plain", "application/xml"],
)
def test_other_media_types_are_refused(content_type: str) -> None:
    with pytest.raises(ProblemError) as raised:
        shape_of({"content-type": content_type})
    assert raised.value.problem.status == 415


def test_a_query_becomes_a_filter() -> None:
    query = EventQuery.model_validate(
        {
            "type": "shop:*:order:*",
            "correlationId": "c",
            "context": ["region=us=west", "a=1"],
            "from": "2025-06-15T12:00:00Z",
            "to": "2025-06-15T14:00:00+02:00",
        }
    )
    chosen = query.to_filter()
    assert (chosen.type, chosen.correlation_id) == ("shop:*:order:*", "c")
    assert chosen.context == (("region", "us=west"), ("a", "1"))
    assert chosen.since == chosen.until == 1_749_988_800.0
    assert EventQuery().to_filter().since is None


@pytest.mark.parametrize("text", ["0.5", "1750000000", "-1", "1e9", "", "2025-06-15T12:00:00"])
def test_a_time_is_written_out(text: str) -> None:
    with pytest.raises(ValidationError):
        EventQuery.model_validate({"from": text})
