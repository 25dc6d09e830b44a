import pytest
from pydantic import ValidationError

from serve_app.events.event_models import EventListQuery
from serve_app.events.events import EventFormat, event_format_of
from serve_app.http.problems import ProblemError

CE = {"ce-specversion": "1.0"}


@pytest.mark.parametrize(
    ("headers", "shape"),
    [
        ({}, EventFormat.PLAIN),
        ({"content-type": "application/json; charset=utf-8"}, EventFormat.PLAIN),
        ({"content-type": "application/vnd.order+json"}, EventFormat.PLAIN),
        ({"content-type": "application/cloudevents+json; charset=UTF-8"}, EventFormat.STRUCTURED),
        ({"content-type": "Application/CloudEvents-Batch+JSON"}, EventFormat.BATCH),
        (CE, EventFormat.BINARY),
        ({"ce-type": "x"}, EventFormat.BINARY),
        (CE | {"content-type": "application/json"}, EventFormat.BINARY),
        (CE | {"content-type": "text/xml"}, EventFormat.BINARY),
        # What the media type says goes first.
        (CE | {"content-type": "application/cloudevents+json"}, EventFormat.STRUCTURED),
    ],
)
def test_the_headers_tell_how_events_are_written(
    headers: dict[str, str], shape: EventFormat
) -> None:
    assert event_format_of(headers) is shape


@pytest.mark.parametrize(
    "content_type",
    ["application/cloudevents+xml", "application/cloudevents", "text/plain", "application/xml"],
)
def test_other_media_types_are_refused(content_type: str) -> None:
    with pytest.raises(ProblemError) as raised:
        event_format_of({"content-type": content_type})
    assert raised.value.problem.status == 415


def test_a_query_becomes_a_filter() -> None:
    query = EventListQuery.model_validate(
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
    assert EventListQuery().to_filter().since is None


@pytest.mark.parametrize("text", ["0.5", "1750000000", "-1", "1e9", "", "2025-06-15T12:00:00"])
def test_a_time_is_written_out(text: str) -> None:
    with pytest.raises(ValidationError):
        EventListQuery.model_validate({"from": text})
