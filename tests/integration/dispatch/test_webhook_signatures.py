"""What arrives, verified as receivers do it: by their own library, and by hand."""

import hashlib
import hmac
import time
from collections.abc import AsyncIterator
from datetime import datetime
from urllib.parse import unquote

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from core.dispatch.claim import ClaimedJob, DeliveryProfile
from core.dispatch.signature import format_secret
from core.dispatch.subscription import Signature
from core.events.cloud_event import EventStamp, read_binary
from core.shared.call_policy import LOOPBACK, CallPolicy
from handlers.http.client import HttpClient
from handlers.http.webhooks import Webhooks
from tests.support.deliveries import EVENT, delivery, task
from tests.support.servers import LARGEST, OK, replying, serving

OLD, NEW, OTHER = b"o" * 32, b"n" * 24, b"x" * 64
Arrived = tuple[dict[str, str], bytes]


@pytest.fixture
async def webhooks() -> AsyncIterator[Webhooks]:
    async with HttpClient(CallPolicy(LOOPBACK), LARGEST) as caller:
        yield Webhooks(caller, time.time)


async def arrived(webhooks: Webhooks, job: ClaimedJob, profile: DeliveryProfile) -> Arrived:
    """The headers, in lower case and each once, and the body."""
    async with serving(replying(OK)) as server:
        moved = ClaimedJob(**{f: getattr(job, f) for f in job.__struct_fields__} | _to(server.url))
        assert (await webhooks.send(moved, profile)).code == 200
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = [line.partition(": ") for line in head.decode("ascii").split("\r\n")[1:]]
    headers = {name.lower(): value for name, _, value in lines}
    assert len(headers) == len(lines)
    return headers, body


def _to(url: str) -> dict[str, str]:
    return {"target_url": url}


JOBS = {
    "data alone": delivery(payload=b'{"n": 1.0 }'),
    "in an envelope": delivery(payload=b'{"n": 1.0 }', data_only=False),
    "a task": task(payload=b'{"n": 2}'),
    "text": task(payload="Größe".encode(), content_type="text/plain; charset=utf-8"),
    "nothing": delivery(payload=None),
}


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
async def test_while_a_secret_is_replaced_either_verifies(
    webhooks: Webhooks, job: ClaimedJob
) -> None:
    headers, body = await arrived(webhooks, job, DeliveryProfile(secrets=(NEW, OLD)))
    for secret in (OLD, NEW):
        Webhook(format_secret(secret)).verify(body, headers, json_parse=False)
    for wrong in (OTHER, b"s"):
        with pytest.raises(WebhookVerificationError):
            Webhook(format_secret(wrong)).verify(body, headers, json_parse=False)
    with pytest.raises(WebhookVerificationError):
        Webhook(format_secret(NEW)).verify(body + b" ", headers, json_parse=False)
    assert headers["webhook-id"] == job.job_id


async def test_the_message_is_the_same_each_time_and_its_time_is_not(webhooks: Webhooks) -> None:
    profile = DeliveryProfile(secrets=(NEW,))
    first, body = await arrived(webhooks, delivery(), profile)
    again, same = await arrived(webhooks, delivery(attempt_count=1, send_no=4), profile)
    assert body == same
    for name in ("webhook-id", "idempotency-key", "x-muster-event-id", "ce-id"):
        assert first[name] == again[name]
    assert (first["x-muster-attempt"], again["x-muster-attempt"]) == ("1", "2")
    assert abs(int(again["webhook-timestamp"]) - time.time()) < 10


async def test_the_classic_form_verified_by_hand(webhooks: Webhooks) -> None:
    profile = DeliveryProfile(secrets=(NEW, OLD), signature=Signature.CLASSIC)
    headers, body = await arrived(webhooks, JOBS["in an envelope"], profile)
    at = headers["x-flowcatalyst-timestamp"]
    expected = hmac.new(OLD, at.encode() + body, hashlib.sha256).hexdigest()
    assert headers["x-flowcatalyst-signature"] == expected
    assert len(at) == len("2026-03-01T12:00:00.250Z")
    assert abs(datetime.fromisoformat(at).timestamp() - time.time()) < 10
    assert headers["x-flowcatalyst-id"] == "0JOB000000001"
    assert headers["x-flowcatalyst-attempt"] == "1"
    assert not [name for name in headers if name.startswith(("webhook-", "x-muster-"))]


async def test_what_arrives_is_a_cloud_event(webhooks: Webhooks) -> None:
    event = type(EVENT)(
        type=EVENT.type, source="/Läden/7", time=EVENT.time, subject="Größe 7", extensions={"n": 1}
    )
    job = delivery(event=event, subject="Größe 7")
    headers, body = await arrived(webhooks, job, DeliveryProfile())
    read = read_binary(headers, body, EventStamp(1, time.time(), str))
    assert (read.source, read.subject, read.time) == ("/Läden/7", "Größe 7", EVENT.time)
    assert read.extensions == {"n": "1"}
    assert unquote(headers["x-muster-subject"]) == "Größe 7"
    assert "webhook-signature" not in headers, "without a secret"


async def test_headers_and_credentials_are_added_and_ours_stay_ours(webhooks: Webhooks) -> None:
    profile = DeliveryProfile(
        secrets=(NEW,),
        headers={
            "X-Own": "caf\u00e9",
            "X-Split": "a\r\nX-Smuggled: b",
            "Webhook-Signature": "v1,forged",
            "Content-Length": "3",
            "Transfer-Encoding": "chunked",
            "Host": "elsewhere.example",
            "Connection": "close",
            "User-Agent": "shop",
        },
        auth={"type": "basic", "username": "Ann", "password": "secret"},
    )
    headers, body = await arrived(webhooks, delivery(), profile)
    Webhook(format_secret(NEW)).verify(body, headers)
    assert headers["x-own"] == "caf%C3%A9"
    assert headers["x-split"] == "a%0D%0AX-Smuggled: b"
    assert headers["authorization"] == "Basic QW5uOnNlY3JldA=="
    assert headers["user-agent"] == "shop"
    assert headers["content-length"] == str(len(body))
    assert headers["host"].startswith("127.0.0.1:")
    assert not {"x-smuggled", "transfer-encoding", "connection"} & headers.keys()
    bearer = {"type": "bearer", "token": "t0ken"}
    headers, _ = await arrived(webhooks, task(auth=bearer), DeliveryProfile(secrets=(NEW,)))
    assert headers["authorization"] == "Bearer t0ken"
