"""Server-sent events: from the log, with ids, resumable, ending with the result."""

import json
from collections.abc import Iterator
from typing import Any

from tests.support.product import BOTH, Product


def path_of(wait: dict[str, Any]) -> str:
    return f"/api/wait-states/{wait['executionId']}/{wait['correlationId']}/stream"


def events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    current: dict[str, Any] = {}
    for line in lines:
        if not line:
            if "data" in current:
                yield current
            current = {}
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            current["data"] = json.loads(value)
        elif name:
            current[name] = value


def test_a_stream_shows_everything_once_and_ends(placed: Product) -> None:
    wait = placed.register()
    seen: list[dict[str, Any]] = []
    with placed.http.stream("GET", path_of(wait)) as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        for event in events(stream.iter_lines()):
            seen.append(event)
            if event["event"] == "registered":
                placed.callback(wait, {"a": 1})
            elif event["event"] == "received" and event["data"]["event"] == "api_response":
                placed.event(wait, {"b": 2})
    assert [event["event"] for event in seen] == ["registered", "received", "received", "ended"]
    assert [event["id"] for event in seen] == ["0", "1", "2", "3"]
    assert seen[1]["data"]["data"] == {"a": 1}
    assert seen[-1]["data"]["status"] == "completed"
    assert seen[-1]["data"]["output"]["kafka_event"] == {"b": 2}


def test_a_stream_opened_late_or_again_sees_what_it_missed(product: Product) -> None:
    wait = product.register(BOTH | {"aggregationStrategy": "any"})
    product.callback(wait)
    product.event(wait)  # late: not part of the story that ended
    with product.http.stream("GET", path_of(wait)) as stream:
        assert [e["event"] for e in events(stream.iter_lines())] == [
            "registered",
            "received",
            "ended",
        ]
    with product.http.stream("GET", path_of(wait), headers={"Last-Event-ID": "1"}) as stream:
        assert [e["id"] for e in events(stream.iter_lines())] == ["2"]
    with product.http.stream("GET", path_of(wait), headers={"Last-Event-ID": "2"}) as stream:
        assert list(events(stream.iter_lines())) == []


def test_timeouts_are_in_the_stream(product: Product) -> None:
    wait = product.register(BOTH | {"timeout": 0.5})
    with product.http.stream("GET", path_of(wait)) as stream:
        told = [(e["event"], e["data"].get("event")) for e in events(stream.iter_lines())]
    assert told == [
        ("registered", None),
        ("timed_out", "api_response"),
        ("timed_out", "kafka_event"),
        ("ended", None),
    ]


def test_an_unknown_correlation_is_404(product: Product) -> None:
    reply = product.http.get("/api/wait-states/nobody/nothing/stream")
    assert reply.status_code == 404


def test_several_viewers_see_the_same(product: Product) -> None:
    wait = product.register(BOTH | {"aggregationStrategy": "any"})
    with (
        product.http.stream("GET", path_of(wait)) as one,
        product.http.stream("GET", path_of(wait)) as two,
    ):
        product.callback(wait)
        first, second = list(events(one.iter_lines())), list(events(two.iter_lines()))
    assert first == second
    assert [event["event"] for event in first] == ["registered", "received", "ended"]
