"""What a delivery looks like, to the byte."""

import json
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.dispatch.claim import ClaimedJob, DeliveryProfile
from core.dispatch.envelope import body_of, headers_of, idempotency_key
from core.dispatch.signature import sign_classic, sign_standard
from core.dispatch.subscription import Signature
from core.events.cloud_event import EventStamp, read_binary
from tests.support.deliveries import EVENT, MADE_AT, delivery, task

NOW = MADE_AT + 60
SECRET = b"s" * 32
STANDARD = DeliveryProfile(secrets=(SECRET,))
CLASSIC = DeliveryProfile(secrets=(SECRET,), signature=Signature.CLASSIC)


def headers(job: ClaimedJob, profile: DeliveryProfile = STANDARD) -> dict[str, str]:
    body, content_type = body_of(job)
    return headers_of(job, profile, body, content_type, NOW)


# Bodies.


@pytest.mark.parametrize(
    ("payload", "content_type", "kind"),
    [
        (b'{ "n" : 1.0 }\n', "application/json", "application/json"),
        (b"<n>1</n>", "application/xml", "application/xml"),
        (b"\xff\x00", None, "application/octet-stream"),
        (b"", "text/plain", "text/plain"),
        (b"not json", "application/json", "application/json"),
    ],
)
def test_data_alone_goes_as_it_came(payload: bytes, content_type: str | None, kind: str) -> None:
    assert body_of(delivery(payload=payload, content_type=content_type)) == (payload, kind)


def test_no_data_is_no_body() -> None:
    job = delivery(payload=None, content_type="application/json")
    assert body_of(job) == (b"", None)
    assert "Content-Type" not in headers(job)


DATA = [
    (b'{"n": 1, "big": 12345678901234567890.50}', "application/json", {"data"}),
    (b"[1]", "application/vnd.x+json; charset=utf-8", {"data"}),
    (b"<n>1</n>", "application/xml", {"data"}),
    (b"{broken", "application/json", {"data"}),
    (b"\xff\x00", "application/octet-stream", {"dataBase64"}),
    (b"\xff", "application/json", {"dataBase64"}),
    (None, None, {"data"}),
]


@pytest.mark.parametrize(("payload", "content_type", "field"), DATA)
def test_an_envelope_has_the_data_in_it_once(
    payload: bytes | None, content_type: str | None, field: set[str]
) -> None:
    body, kind = body_of(delivery(payload=payload, content_type=content_type, data_only=False))
    assert kind == "application/json"
    told = json.loads(body)
    assert told.keys() - field == {
        "id",
        "kind",
        "code",
        "subject",
        "eventId",
        "correlationId",
        "timestamp",
    }


def test_what_the_envelope_says() -> None:
    job = delivery(payload=b'{"n": 1.10}', data_only=False)
    assert body_of(job)[0] == (
        b'{"id":"0JOB000000001","kind":"EVENT","code":"shop:orders:order:placed",'
        b'"subject":"order/4711","eventId":"0EVT000000001","correlationId":"c-1",'
        b'"timestamp":"2026-03-01T12:00:00.250Z","data":{"n": 1.10}}'
    )
    assert body_of(replace(job, attempt_count=2, send_no=9)) == body_of(job), "each time the same"


@pytest.mark.parametrize(
    ("payload", "content_type", "data"),
    [
        (b"<n/>", "application/xml", {"data": "<n/>"}),
        (b"{broken", "application/json", {"data": "{broken"}),
        (b"1", None, {"data": "1"}),
        (b"\xff\x00", None, {"dataBase64": "/wA="}),
        (None, None, {"data": None}),
        (b"[" * 100_000, "application/json", {"data": "[" * 100_000}),
    ],
)
def test_what_is_no_json_goes_in_as_text(
    payload: bytes | None, content_type: str | None, data: dict[str, Any]
) -> None:
    body, _ = body_of(task(payload=payload, content_type=content_type, data_only=False))
    assert (
        json.loads(body)
        == {
            "id": "0JOB000000001",
            "kind": "TASK",
            "code": "rebuild-index",
            "subject": None,
            "eventId": None,
            "correlationId": None,
            "timestamp": "2026-03-01T12:00:00.250Z",
        }
        | data
    )


@given(st.binary(), st.sampled_from([None, "application/json", "text/plain"]))
def test_every_envelope_can_be_read(payload: bytes, content_type: str | None) -> None:
    job = delivery(payload=payload, content_type=content_type, data_only=False)
    assert json.loads(body_of(job)[0])["id"] == job.job_id


# Headers.


def test_the_headers_of_an_event_in_the_standard_form() -> None:
    job = delivery(attempt_count=1)
    assert headers(job) == sign_standard([SECRET], job.job_id, int(NOW), b'{"n": 1}') | {
        "Content-Type": "application/json",
        "Idempotency-Key": "0EVT000000001:sub_0SUB000000001",
        "X-Muster-Job-Id": "0JOB000000001",
        "X-Muster-Event-Id": "0EVT000000001",
        "X-Muster-Event-Type": "shop:orders:order:placed",
        "X-Muster-Subscription-Id": "sub_0SUB000000001",
        "X-Muster-Attempt": "2",
        "X-Muster-Correlation-Id": "c-1",
        "X-Muster-Subject": "order/4711",
        "ce-specversion": "1.0",
        "ce-id": "0EVT000000001",
        "ce-type": "shop:orders:order:placed",
        "ce-source": "/shop/tills/7",
        "ce-time": "2026-03-01T12:00:00.250000Z",
        "ce-subject": "order/4711",
        "ce-correlationid": "c-1",
    }


def test_the_headers_of_an_event_in_the_classic_form() -> None:
    job = delivery(data_only=False)
    body = body_of(job)[0]
    assert headers(job, CLASSIC) == sign_classic([SECRET], NOW, body) | {
        "Content-Type": "application/json",
        "Idempotency-Key": "0EVT000000001:sub_0SUB000000001",
        "X-FlowCatalyst-ID": "0JOB000000001",
        "X-FlowCatalyst-Dispatch-Job-Id": "0JOB000000001",
        "X-FlowCatalyst-Event-Id": "0EVT000000001",
        "X-FlowCatalyst-Causation-ID": "0EVT000000001",
        "X-FlowCatalyst-Kind": "EVENT",
        "X-FlowCatalyst-Code": "shop:orders:order:placed",
        "X-FlowCatalyst-Subscription-Id": "sub_0SUB000000001",
        "X-FlowCatalyst-Attempt": "1",
        "X-FlowCatalyst-Correlation-ID": "c-1",
        "X-FlowCatalyst-Subject": "order/4711",
    }


def test_a_task_tells_what_there_is_to_tell() -> None:
    told = headers(task())
    assert told["X-Muster-Event-Type"] == "rebuild-index"
    assert told["Idempotency-Key"] == "0JOB000000001"
    assert not [name for name in told if name.startswith("ce-") or name.endswith("Event-Id")]


def test_a_task_is_signed_in_the_form_that_its_creator_wants() -> None:
    classic = headers(task(signature=Signature.CLASSIC))
    assert classic == headers(task(), CLASSIC)
    assert "X-FLOWCATALYST-SIGNATURE" in classic
    assert headers(task(signature=Signature.STANDARD), CLASSIC) == headers(task())


def test_the_client_that_it_is_about_is_told() -> None:
    assert headers(task(client_id="acme"))["X-Muster-Client-Id"] == "acme"
    assert headers(task(client_id="acme"), CLASSIC)["X-FlowCatalyst-Client-Id"] == "acme"
    assert not [name for name in headers(task()) if name.endswith("Client-Id")]


def test_an_event_with_its_data_alone_is_a_cloud_event_in_binary_mode() -> None:
    event = replace(
        EVENT,
        subject='Größe 7 "x" 100%',
        data_schema="https://schemas.example/order/1.0",
        type_version="1.0",
        message_group="m",
        causation_id="cause",
        extensions={"traceparent": "00-ab", "flag": True, "off": False, "number": -7, "id": "no"},
    )
    job = delivery(event=event)
    told = {name.lower(): value for name, value in headers(job).items()}
    read = read_binary(told, body_of(job)[0], EventStamp(1, NOW, lambda: "new"))
    assert (read.type, read.source, read.subject) == (event.type, event.source, event.subject)
    assert (read.time, read.data_schema) == (event.time, event.data_schema)
    assert (read.type_version, read.message_group) == ("1.0", "m")
    assert (read.causation_id, read.correlation_id) == ("cause", "c-1")
    assert read.deduplication_id == "/shop/tills/7/0EVT000000001"
    assert (read.data, read.content_type) == (b'{"n": 1}', "application/json")
    assert read.extensions == {
        "traceparent": "00-ab",
        "flag": "true",
        "off": "false",
        "number": "-7",
    }


def test_the_key_is_its_creators_or_made_of_what_it_brings_to_whom() -> None:
    assert idempotency_key(task(idempotency_key="mine")) == "mine"
    assert idempotency_key(delivery(subscription_id=None)) == "0JOB000000001"
    assert idempotency_key(delivery(attempt_count=2, send_no=3)) == idempotency_key(delivery())
    assert headers(task(idempotency_key="a\nb"))["Idempotency-Key"] == "a%0Ab"


def test_headers_of_the_subscription_and_of_the_job_are_added() -> None:
    profile = DeliveryProfile(
        secrets=(SECRET,),
        headers={"X-Own": "1", "X-Both": "subscription", "webhook-id": "mine", "Host": "mine"},
        auth={"type": "bearer", "token": "t"},
    )
    told = headers(delivery(), profile)
    assert (told["X-Own"], told["X-Both"]) == ("1", "subscription")
    assert (told["Authorization"], told["webhook-id"]) == ("Bearer t", "0JOB000000001")
    assert "Host" not in told
    job = delivery(
        headers={"x-both": "job", "Content-Length": "9"},
        auth={"type": "basic", "username": "a", "password": "b"},
    )
    told = headers(job, profile)
    assert (told["X-Own"], told["x-both"]) == ("1", "job")
    assert told["Authorization"] == "Basic YTpi"
    assert not {"X-Both", "Content-Length"} & told.keys()
    assert profile.extra_headers["X-Both"] == "subscription", "what is shared is not changed"


def test_what_is_too_long_for_a_header_is_left_out() -> None:
    event = replace(
        EVENT, subject="ä" * 1_000, extensions={f"x{n}": "y" * 1_000 for n in range(50)}
    )
    told = headers(delivery(event=event, subject="ä" * 1_000))
    assert not {"X-Muster-Subject", "ce-subject"} & told.keys()
    assert len([name for name in told if name.startswith("ce-x")]) == 7
    assert sum(len(name) + len(value) for name, value in told.items()) < 16_000


@given(
    st.fixed_dictionaries(
        {
            "code": st.text(max_size=50),
            "subject": st.none() | st.text(max_size=50),
            "correlation_id": st.none() | st.text(max_size=50),
            "event_id": st.none() | st.text(max_size=50),
            "idempotency_key": st.none() | st.text(max_size=50),
            "content_type": st.none() | st.text(max_size=50),
            "headers": st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=5),
            "data_only": st.booleans(),
        }
    ),
    st.sampled_from([STANDARD, CLASSIC]),
)
def test_whatever_is_told_no_header_becomes_two(
    fields: dict[str, Any], form: DeliveryProfile
) -> None:
    told = headers(delivery(**fields), form)
    for name, value in told.items():
        assert name.isascii()
        assert name.isprintable()
        assert value.isascii()
        assert value.isprintable()
    assert len({name.lower() for name in told}) == len(told)
    if fields["subject"] is not None:
        shown = told.get("X-Muster-Subject") or told.get("X-FlowCatalyst-Subject") or ""
        assert unquote(shown) == fields["subject"]


@pytest.mark.parametrize(
    ("profile", "name"), [(STANDARD, "X-Muster-Tenant"), (CLASSIC, "X-FlowCatalyst-Tenant")]
)
def test_the_anchor_is_told_whose_event_it_is(profile: DeliveryProfile, name: str) -> None:
    anchors = delivery(event_tenant="acme", data_only=False)
    assert headers(anchors, profile)[name] == "acme"
    assert json.loads(body_of(anchors)[0])["tenant"] == "acme"
    own = delivery(data_only=False)
    assert name not in headers(own, profile)
    assert "tenant" not in json.loads(body_of(own)[0])
