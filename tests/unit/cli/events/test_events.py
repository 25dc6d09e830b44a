"""`muster events` and `muster event-types` from the words typed to the request and the output."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.events.event_types import default_type_name, schema_type_of
from cli.shell.errors import InputError
from cli.shell.parsing import encode_with_raw, join_path, parse_pairs, parse_seconds, parse_time
from core.events.event_type import SchemaType
from tests.support.command_line import FakeMuster

NOW = datetime(2030, 1, 2, 12, 0, tzinfo=UTC)
TYPE = "shop:orders:order:created"
EVENT: dict[str, Any] = {
    "id": "0PJ3F6SK81VB8",
    "specVersion": "1.0",
    "type": TYPE,
    "source": "shop",
    "subject": "order-17",
    "time": "2030-01-01T00:00:00Z",
    "createdAt": "2030-01-01T00:00:01Z",
    "typeVersion": "1.0",
    "messageGroup": "customer-4",
    "deduplicationId": "payment-81",
    "dataContentType": "application/json",
    "contextData": [{"key": "customer", "value": "4"}],
    "extensions": {"region": "north"},
}
JOB: dict[str, Any] = {
    "id": "0PJ3F6SK81VB9",
    "code": TYPE,
    "messageGroup": "billing:customer-4",
    "status": "ERROR",
    "attemptCount": 3,
    "maxRetries": 3,
    "targetUrl": "http://127.0.0.1:9/hook",
    "createdAt": "2030-01-01T00:00:01Z",
    "lastError": "it answered 500",
}
EVENT_TYPE: dict[str, Any] = {
    "id": "evt_0PJ3F6SK81VB8",
    "code": TYPE,
    "name": "Order created",
    "description": None,
    "status": "CURRENT",
    "clientScoped": False,
    "validation": "enforce",
    "specVersions": [
        {
            "version": "1.0",
            "status": "CURRENT",
            "mimeType": "application/json",
            "schemaType": "JSON_SCHEMA",
            "updatedAt": "2030-01-01T00:00:00Z",
        }
    ],
}
TYPES, ONE = "/api/event-types", f"/api/event-types/{TYPE}"


def sent(muster: FakeMuster, place: int = -1) -> Any:
    return json.loads(muster.requests[place].content)


# Events


def test_an_event_is_sent_with_what_was_given(muster: FakeMuster) -> None:
    reply = {"event": EVENT, "duplicate": False, "dispatchJobCount": 2}
    muster.answers["POST /api/events"] = httpx.Response(201, json=reply)
    words = ("--source", "shop", "--subject", "order-17", "--group", "customer-4")
    more = ("--dedup", "payment-81", "--context", "customer=4", "--context", "note=a=b")
    ids = ("--execution", "e", "--correlation", "c", "--causation", "x", "--type-version", "1.0")
    run = muster.run("events", "send", TYPE, "-d", '{"total": 1.10}', *words, *more, *ids)
    assert run.exit_code == 0, run.output
    assert run.stdout == "0PJ3F6SK81VB8  stored, 2 deliveries\n"
    assert b'"data": {"total": 1.10}}' in muster.requests[0].content, "digit by digit"
    assert sent(muster) == {
        "type": TYPE,
        "source": "shop",
        "subject": "order-17",
        "messageGroup": "customer-4",
        "deduplicationId": "payment-81",
        "contextData": [{"key": "customer", "value": "4"}, {"key": "note", "value": "a=b"}],
        "executionId": "e",
        "correlationId": "c",
        "causationId": "x",
        "typeVersion": "1.0",
        "data": {"total": 1.10},
    }


def test_little_is_enough(muster: FakeMuster) -> None:
    muster.answers["POST /api/events"] = {"event": EVENT, "duplicate": True, "dispatchJobCount": 0}
    run = muster.run("events", "send", "t")
    assert sent(muster) == {"type": "t", "source": "muster-cli"}
    assert "duplicate: an event with this id was stored before" in run.stdout
    as_json = muster.run("events", "send", "t", "-d", "-", "--json", stdin="[1]")
    assert json.loads(as_json.stdout)["duplicate"] is True
    assert sent(muster)["data"] == [1]


def test_what_is_no_json_goes_as_text(muster: FakeMuster, tmp_path: Path) -> None:
    muster.answers["POST /api/events"] = {"event": EVENT, "duplicate": False, "dispatchJobCount": 1}
    file = tmp_path / "order.xml"
    file.write_text("<order/>\n")
    run = muster.run("events", "send", "t", "-d", f"@{file}", "--content-type", "application/xml")
    assert run.stdout.endswith("stored, 1 delivery\n")
    assert sent(muster)["data"] == "<order/>\n"
    assert sent(muster)["dataContentType"] == "application/xml"
    json_kind = ("--content-type", "application/problem+json")
    assert muster.run("events", "send", "t", "-d", "<order/>", *json_kind).exit_code == 2


def test_what_did_not_fit_and_what_its_wait_said_are_told(muster: FakeMuster) -> None:
    muster.answers["POST /api/events"] = {
        "event": EVENT,
        "duplicate": False,
        "dispatchJobCount": 0,
        "warnings": [{"path": "/total", "expected": "a number"}],
        "wait": {"verdict": "matched", "detail": "counts as api_response"},
    }
    shown = muster.run("events", "send", "t").stdout
    assert "stored, no subscription matches" in shown
    assert "does not match the schema: data/total: a number" in shown
    assert "wait: matched  counts as api_response" in shown


def test_an_event_that_does_not_fit_is_refused_with_the_place(muster: FakeMuster) -> None:
    problem = {
        "detail": f"data is not what {TYPE} 1.0 says: data/total: a number",
        "errors": [{"field": "data/total", "expected": "a number", "got": "many"}],
    }
    muster.answers["POST /api/events"] = httpx.Response(422, json=problem)
    run = muster.run("events", "send", TYPE, "-d", '{"total": "many"}')
    assert run.exit_code == 1
    assert 'data/total: a number, got "many"' in run.stderr


def test_events_are_listed_by_their_filters(muster: FakeMuster) -> None:
    item = {**EVENT, "dataSize": 1234}
    muster.answers["GET /api/events"] = {"items": [item], "nextCursor": "0PJ"}
    words = ("--type", "shop:*:*:*", "--source", "shop", "--subject", "s", "--limit", "7")
    more = ("--context", "a=1", "--context", "b=2", "--since", "2030-01-01T00:00:00Z")
    run = muster.run("events", "list", *words, *more, "--group", "g", "--correlation", "c")
    assert run.exit_code == 0, run.output
    params = muster.requests[0].url.params
    assert params.get_list("context") == ["a=1", "b=2"]
    assert dict(params) == {
        "type": "shop:*:*:*",
        "source": "shop",
        "subject": "s",
        "messageGroup": "g",
        "correlationId": "c",
        "context": "a=1",
        "from": "2030-01-01T00:00:00Z",
        "limit": "7",
    }
    for text in (TYPE, "order-17", "customer-4", "1,234", "--cursor 0PJ"):
        assert text in run.stdout
    muster.answers["GET /api/events"] = {"items": [], "nextCursor": None}
    assert muster.run("events", "list").stdout == "No events.\n"


def test_since_is_counted_from_now(muster: FakeMuster) -> None:
    muster.answers["GET /api/events"] = {"items": [], "nextCursor": None}
    before = datetime.now(UTC)
    muster.run("events", "list", "--since", "10m", "--until", "5m")
    given = muster.requests[0].url.params
    since, until = (datetime.fromisoformat(given[name]) for name in ("from", "to"))
    assert 299 < (until - since).total_seconds() < 301
    assert 599 < (before - since).total_seconds() < 660


def test_an_event_is_shown_with_its_deliveries(muster: FakeMuster) -> None:
    muster.answers[f"GET /api/events/{EVENT['id']}"] = {**EVENT, "data": {"ü": 1}}
    jobs = f"GET /api/dispatch-jobs/event/{EVENT['id']}"
    muster.answers[jobs] = {"items": [JOB], "nextCursor": None}
    shown = muster.run("events", "show", EVENT["id"]).stdout
    for text in (f"{TYPE}  1.0", '"ü": 1', "customer=4", "region=north", "it answered 500"):
        assert text in shown
    document = json.loads(muster.run("events", "show", EVENT["id"], "--json").stdout)
    assert document["jobs"] == [JOB]
    muster.answers[jobs] = {"items": [], "nextCursor": None}
    assert "No subscription received it." in muster.run("events", "show", EVENT["id"]).stdout


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({}, "The event has no data."),
        ({"dataBase64": "/w=="}, "/w==  (base64: not JSON)"),
        ({"data": "<order/>"}, "<order/>"),
    ],
)
def test_data_of_each_kind_is_shown(data: dict[str, Any], told: str, muster: FakeMuster) -> None:
    muster.answers[f"GET /api/events/{EVENT['id']}"] = {**EVENT, **data}
    forbidden = httpx.Response(403, json={"detail": "the key has no dispatch:read"})
    muster.answers[f"GET /api/dispatch-jobs/event/{EVENT['id']}"] = forbidden
    run = muster.run("events", "show", EVENT["id"])
    assert run.exit_code == 0, "a key that may see events only sees the event"
    assert told in run.stdout
    assert "No subscription" not in run.stdout


# Words


def test_moments_as_people_write_them() -> None:
    assert parse_time("90m", NOW) == "2030-01-02T10:30:00Z"
    assert parse_time("2030-01-01T01:00:00+01:00", NOW) == "2030-01-01T00:00:00Z"
    local = datetime.fromisoformat(parse_time("2030-01-01", NOW))
    assert local == datetime(2030, 1, 1).astimezone(), "the clock of this machine"


@pytest.mark.parametrize("text", ["2030-13-01", "2030-", "soon", "-5m"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(InputError):
        parse_time(text, NOW)


def test_pairs_paths_and_seconds() -> None:
    assert parse_pairs(["a=", "b=c=d"], "context") == [("a", ""), ("b", "c=d")]
    assert join_path("/x", "a:b/c d?") == "/x/a:b%2Fc%20d%3F"
    assert parse_seconds("1h30m") == 5_400
    assert (
        encode_with_raw({"a": None, "ü": "\ud83d\ude00"}, "data", None)
        == b'{"\\u00fc": "\\ud83d\\ude00"}'
    )
    for wrong in (["a"], ["=a"]):
        with pytest.raises(InputError, match="write NAME=VALUE"):
            parse_pairs(wrong, "context")
    with pytest.raises(InputError, match="whole seconds"):
        parse_seconds("1.5s")


# Event types


def test_event_types_are_listed(muster: FakeMuster) -> None:
    muster.answers[f"GET {TYPES}"] = {"items": [EVENT_TYPE], "nextCursor": TYPE}
    run = muster.run("event-types", "list", "--application", "shop", "--status", "current")
    assert run.exit_code == 0, run.output
    given = dict(muster.requests[0].url.params)
    assert given == {"application": "shop", "status": "CURRENT", "limit": "100"}
    for text in (TYPE, "Order created", "1.0", "enforce", f"--cursor {TYPE}"):
        assert text in run.stdout
    muster.answers[f"GET {TYPES}"] = {"items": [], "nextCursor": None}
    assert muster.run("event-types", "list").stdout == "No event types.\n"


def test_an_event_type_is_shown_with_its_versions_or_one_schema(muster: FakeMuster) -> None:
    muster.answers[f"GET {ONE}"] = EVENT_TYPE
    shown = muster.run("event-types", "show", TYPE).stdout
    for text in ("Order created", "JSON_SCHEMA", "application/json"):
        assert text in shown
    muster.answers[f"GET {ONE}"] = {**EVENT_TYPE, "specVersions": [], "clientScoped": True}
    assert "any event matches" in muster.run("event-types", "show", TYPE).stdout
    muster.answers[f"GET {ONE}/schemas/1.0"] = {"code": TYPE, "schema": '{"type":\n "object"}'}
    schema = muster.run("event-types", "show", TYPE, "--schema", "1.0").stdout
    assert schema == '{"type":\n "object"}\n', "as it is, so that it can be put into a file"


def test_an_event_type_is_registered(muster: FakeMuster) -> None:
    muster.answers[f"POST {TYPES}"] = httpx.Response(201, json=EVENT_TYPE)
    run = muster.run("event-types", "create", TYPE)
    assert run.stdout == f"Event type {TYPE} is created.\n"
    assert sent(muster) == {"code": TYPE, "name": "Order created"}
    words = ("--name", "N", "--description", "D", "--validation", "warn", "--client-scoped")
    muster.run("event-types", "create", TYPE, *words)
    assert sent(muster) == {
        "code": TYPE,
        "name": "N",
        "description": "D",
        "validation": "warn",
        "clientScoped": True,
    }


def test_a_version_is_added_from_a_file_and_put_in_force(
    muster: FakeMuster, tmp_path: Path
) -> None:
    file = tmp_path / "order.json"
    file.write_text('{"type": "object"}')
    muster.answers[f"POST {ONE}/schemas"] = httpx.Response(201, json=EVENT_TYPE)
    muster.answers[f"POST {ONE}/schemas/1.0/finalise"] = EVENT_TYPE
    added = muster.run("event-types", "add-version", TYPE, "1.0", str(file))
    assert added.stdout == f"Version 1.0 of {TYPE} is FINALISING.\n"
    body = {"version": "1.0", "schema": '{"type": "object"}', "schemaType": "JSON_SCHEMA"}
    assert sent(muster) == body
    at_once = muster.run("event-types", "add-version", TYPE, "1.0", f"@{file}", "--finalise")
    assert at_once.stdout == f"Version 1.0 of {TYPE} is in force.\n"
    assert sent(muster, -2) == body
    words = ("-", "--kind", "xsd", "--mime-type", "text/xml")
    muster.run("event-types", "add-version", TYPE, "1.0", *words, stdin="<x/>")
    assert sent(muster) == {
        "version": "1.0",
        "schema": "<x/>",
        "schemaType": "XSD",
        "mimeType": "text/xml",
    }


@pytest.mark.parametrize(
    ("words", "path", "told"),
    [
        (["finalise", TYPE, "1.0"], f"{ONE}/schemas/1.0/finalise", "1.0 of .* is in force"),
        (["deprecate", TYPE, "1.0"], f"{ONE}/schemas/1.0/deprecate", "1.0 of .* is deprecated"),
        (["archive", TYPE], f"{ONE}/archive", "is archived"),
    ],
)
def test_an_event_type_goes_its_way(
    words: list[str], path: str, told: str, muster: FakeMuster
) -> None:
    muster.answers[f"POST {path}"] = EVENT_TYPE
    run = muster.run("event-types", *words)
    assert run.exit_code == 0, run.output
    assert told.rpartition(" of .* ")[2] in run.stdout
    assert json.loads(muster.run("event-types", *words, "--json").stdout) == EVENT_TYPE


def test_what_a_file_is_and_how_a_type_is_called() -> None:
    assert schema_type_of("a/B.XSD") is SchemaType.XSD
    assert schema_type_of("order.proto") is SchemaType.PROTO
    with pytest.raises(InputError, match="give --kind"):
        schema_type_of("-")
    assert default_type_name("shop:orders:sales-order:line-added") == "Sales order line added"
    assert default_type_name("odd") == "Odd"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["events", "send", "t", "-d", "{"], "is not JSON"),
        (["events", "send", "t", "-d", "@/nowhere"], "Cannot read /nowhere"),
        (["events", "send", "t", "--context", "x"], "is not a context: write NAME=VALUE"),
        (["events", "list", "--context", "x"], "is not a context: write NAME=VALUE"),
        (["events", "list", "--since", "soon"], "is not a time"),
        (
            ["event-types", "show", "nope"],
            "'nope' is not a valid event type code or id: see `muster event-types list`.",
        ),
        (["events", "list", "--since", "2030-99-01"], "is not a time"),
        (["event-types", "add-version", TYPE, "1.0", "/nowhere.json"], "Cannot read /nowhere"),
        (["event-types", "add-version", TYPE, "1.0", "schema"], "give --kind"),
        (["event-types", "create", TYPE, "--validation", "perhaps"], "enforce"),
    ],
)
def test_what_cannot_be_right_is_said_before_anything_is_sent(
    words: list[str], told: str, muster: FakeMuster
) -> None:
    run = muster.run(*words)
    assert run.exit_code == 2
    assert told in run.stderr
    assert not muster.requests
