"""What may be asked of dispatch jobs."""

import json
from typing import Any

import pytest

from core.dispatch.job import JobStatus, QueueState
from core.dispatch.subscription import Signature
from serve_app.dispatch.job_models import JobBatch, JobChoice, JobQuery, JobRequest, RecoverRequest
from serve_app.dispatch.job_service import payload_in, payloads_in
from serve_app.http.json_io import parse_as
from serve_app.http.problems import ProblemError

JOB: dict[str, Any] = {
    "source": "test",
    "code": "ship",
    "targetUrl": "http://127.0.0.1:9/",
    "payload": {"n": 1},
}
NOW = 1_700_000_000.0


def parse(**fields: Any) -> JobRequest:
    return parse_as(JobRequest, json.dumps(JOB | fields).encode())


def faults(model: type[Any], body: Any) -> list[str]:
    with pytest.raises(ProblemError) as caught:
        parse_as(model, json.dumps(body).encode())
    assert caught.value.problem.status == 422
    return [fault.field for fault in caught.value.problem.field_errors]


def test_defaults_are_those_of_subscriptions() -> None:
    new = parse().to_new("J", 1, b"{}", NOW)
    assert (new.sequence, new.max_retries, new.timeout_seconds) == (99, 3, 30)
    assert (new.scheduled_for, new.expires_at, new.data_only) == (None, None, True)
    assert (new.mode, new.content_type) == ("IMMEDIATE", "application/json")
    assert new.signature is Signature.STANDARD
    assert parse(signature="classic").to_new("J", 1, b"", NOW).signature is Signature.CLASSIC


def test_times_are_said_as_seconds_or_as_times() -> None:
    new = parse(delaySeconds=5, maxAgeSeconds=60).to_new("J", 1, b"", NOW)
    assert (new.scheduled_for, new.expires_at) == (NOW + 5, NOW + 60)
    at = "2023-11-14T22:13:20Z"
    new = parse(scheduledFor=at, expiresAt=at).to_new("J", 1, b"", 0.0)
    assert (new.scheduled_for, new.expires_at) == (NOW, NOW)
    assert faults(JobRequest, JOB | {"delaySeconds": 5, "scheduledFor": at}) == ["body"]
    assert faults(JobRequest, JOB | {"maxAgeSeconds": 5, "expiresAt": at}) == ["body"]


def test_credentials_and_headers_go_with_it() -> None:
    auth = {"type": "basic", "username": "u", "password": "p"}
    new = parse(auth=auth, headers={"X-A": "1"}, metadata=[{"key": "k", "value": "v"}])
    kept = new.to_new("J", 1, b"", NOW)
    assert (kept.auth, kept.headers, kept.metadata) == (auth, {"X-A": "1"}, (("k", "v"),))


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"targetUrl": "ftp://x/"}, "targetUrl"),
        ({"targetUrl": "http://u:p@x/"}, "targetUrl"),
        ({"targetUrl": "http://x/\u0000"}, "targetUrl"),
        ({"targetUrl": "http://x/#part"}, "targetUrl"),
        ({"source": ""}, "source"),
        ({"code": "a\nb"}, "code"),
        ({"kind": "EVENT"}, "kind"),
        ({"mode": "SOMETIMES"}, "mode"),
        ({"signature": "none"}, "signature"),
        ({"schemaId": "orders"}, "schemaId"),
        ({"clientId": ""}, "clientId"),
        ({"sequence": 2**31}, "sequence"),
        ({"maxRetries": 0}, "maxRetries"),
        ({"timeoutSeconds": 901}, "timeoutSeconds"),
        ({"headers": {"Webhook-Id": "1"}}, "headers"),
        ({"headers": {"X-A": "a\r\nX-B: b"}}, "headers"),
        ({"headers": {"Host": "x"}}, "headers"),
        ({"scheduledFor": "2030-01-01T00:00:00"}, "scheduledFor"),
        ({"scheduledFor": "9999-12-31T23:59:59-12:00"}, "scheduledFor"),
        ({"expiresAt": 12}, "expiresAt"),
        ({"expiresAt": "12"}, "expiresAt"),
        ({"expiresAt": "2030-02-30T00:00:00Z"}, "expiresAt"),
        ({"auth": {"type": "bearer"}}, "auth.token"),
        ({"payloadContentType": "text"}, "payloadContentType"),
        ({"dataOnly": "true"}, "dataOnly"),
        ({"serviceAccountId": "x"}, "serviceAccountId"),
    ],
)
def test_what_cannot_be_used_is_named(wrong: dict[str, Any], field: str) -> None:
    assert faults(JobRequest, JOB | wrong) == [field]


def test_a_pool_is_named_as_subscriptions_name_it_or_in_short() -> None:
    assert parse(dispatchPoolId="mine").dispatch_pool_id == "mine"
    assert parse(dispatchPool="mine").dispatch_pool_id == "mine"
    assert parse().dispatch_pool_id == "default"
    assert faults(JobRequest, JOB | {"dispatchPoolId": ""}) == ["dispatchPoolId"]


def test_what_is_missing_is_named() -> None:
    assert sorted(faults(JobRequest, {})) == ["code", "payload", "source", "targetUrl"]
    assert faults(JobBatch, [JOB, {"source": "a"}]) == [
        "[1].code",
        "[1].targetUrl",
        "[1].payload",
    ]
    assert faults(JobBatch, []) == ["body"]
    assert faults(JobBatch, [JOB] * 101) == ["body"]


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ('{ "n":1.10, "m":100000000000000000000 }', b'{ "n":1.10, "m":100000000000000000000 }'),
        ('"plain \\u00e4 text"', "plain ä text".encode()),
        ('"{\\"already\\":\\"json\\"}"', b'{"already":"json"}'),
        ("[1]", b"[1]"),
        ("null", b"null"),
        ('""', b""),
    ],
)
def test_a_payload_is_kept_to_the_byte(written: str, sent: bytes) -> None:
    text = f'{{"source":"a","payload":{written},"code":"c"}}'
    assert payload_in(text.encode()) == sent
    assert payloads_in(f"[{text}]".encode()) == [sent]


# Choosing


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"all": False},
        {"ids": ["0MA9V0KF5G01Z"], "all": True},
        {"ids": ["0MA9V0KF5G01Z"], "code": "x"},
        {"all": True, "code": "x"},
        {"code": None},
        {"ids": ["0MA9V0KF5G01Z"], "cursor": "0MA9V0KF5G01Z"},
    ],
)
def test_jobs_are_chosen_in_one_way(body: dict[str, Any]) -> None:
    assert faults(JobChoice, body) == ["body"]


def test_what_is_usual_is_what_failed_and_nobody_put_aside() -> None:
    failed = (JobStatus.ERROR,)
    chosen = parse_as(JobChoice, b'{"code":"x"}').to_filter((1,), failed)
    assert (chosen.statuses, chosen.ignored, chosen.pools) == (failed, False, (1,))
    assert chosen.standing is QueueState.ERROR
    chosen = parse_as(JobChoice, b'{"status":["COMPLETED"],"ignored":true}').to_filter(None, failed)
    assert (chosen.statuses, chosen.ignored) == ((JobStatus.COMPLETED,), True)
    chosen = JobQuery(status=[JobStatus.ERROR]).to_filter(None)
    assert (chosen.statuses, chosen.ignored, chosen.standing) == (failed, None, None)


def test_what_failed_since_a_time_is_recovered() -> None:
    wish = b'{"since":"2023-11-14T22:13:20Z","until":"2023-11-14T22:13:21Z"}'
    chosen = parse_as(RecoverRequest, wish).to_filter(None)
    assert (chosen.failed_after, chosen.failed_before) == (NOW, NOW + 1)
    assert chosen.standing is QueueState.ERROR


@pytest.mark.parametrize(
    "wrong",
    [
        {"page": 0, "cursor": "0MA9V0KF5G01Z"},
        {"page": 500, "size": 20},
        {"page": 100, "size": 100},
        {"page": -1},
        {"size": 101},
    ],
)
def test_pages_have_their_bounds(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        JobQuery(**wrong)
    assert JobQuery(page=499, size=20).page == 499


def test_a_pool_is_meant_by_its_code_or_its_id() -> None:
    assert JobQuery().pool_names == []
    assert JobQuery(dispatchPoolId="dpl_1").pool_names == ["dpl_1"]
    assert JobChoice(pool="slow", dispatchPoolId="dpl_1").pool_names == ["slow", "dpl_1"]
    recover = RecoverRequest(since="2026-01-01T00:00:00Z", dispatchPoolId="dpl_1")
    assert recover.pool_names == ["dpl_1"]
