"""Jobs that are posted are delivered: as they were posted, once, in order, and in time."""

import base64
import hmac
import time

from core.dispatch.signature import parse_secret
from tests.support.dispatching import JOBS, DispatchApi
from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import new_id
from tests.support.subscriptions import new_type


def test_a_job_is_delivered_as_it_was_posted(shipper: DispatchApi) -> None:
    target = shipper.receiver.place()
    reply = shipper.http.post(
        JOBS,
        content=b'{"source":"test","code":"ship",'
        b'"payload":{ "n":1.10, "big":100000000000000000000 },'
        b'"targetUrl":"%s","dispatchPool":"%s","subject":"order:7","correlationId":"c-7",'
        b'"externalId":"x-7","metadata":[{"key":"region","value":"eu"}],'
        b'"headers":{"X-Unit":"7"},"auth":{"type":"basic","username":"u","password":"secret"}}'
        % (target.url.encode(), shipper.pool.encode()),
        headers={"Content-Type": "application/json"},
    )
    assert reply.status_code == 201, reply.text
    posted = reply.json()
    assert (posted["status"], posted["kind"], posted["attemptCount"]) == ("QUEUED", "TASK", 0)
    (delivery,) = target.gets(1)
    assert delivery.body == b'{ "n":1.10, "big":100000000000000000000 }'
    assert delivery.headers["webhook-id"] == posted["id"]
    assert delivery.headers["x-unit"] == "7"
    expected = base64.b64encode(b"u:secret").decode()
    assert delivery.headers["authorization"] == f"Basic {expected}"

    done = shipper.becomes(posted["id"], "COMPLETED")
    (attempt,) = done["attempts"]
    assert (attempt["status"], attempt["responseCode"]) == ("SUCCESS", 200)
    assert (attempt["attemptNumber"], attempt["sendNumber"]) == (1, 1)
    assert done["attemptCount"] == 1
    assert done["completedAt"] is not None
    assert done["durationMillis"] >= attempt["durationMillis"]
    assert (done["subject"], done["correlationId"], done["externalId"]) == ("order:7", "c-7", "x-7")
    assert done["metadata"] == [{"key": "region", "value": "eu"}]
    assert (done["dispatchPoolCode"], done["hasAuth"]) == (shipper.pool, True)
    page = shipper.http.get(f"{JOBS}/{posted['id']}")
    assert '"n":1.10' in page.text
    assert "secret" not in page.text
    attempts = shipper.http.get(f"/api/dispatch/jobs/{posted['id']}/attempts").json()
    assert attempts == {"items": done["attempts"], "nextCursor": None}


def test_a_job_is_signed_in_the_form_that_it_asks_for(shipper: DispatchApi) -> None:
    target = shipper.receiver.place()
    posted = shipper.post(target, signature="classic")
    assert posted["signature"] == "classic"
    (delivery,) = target.gets(1)
    headers = delivery.headers
    secret = shipper.http.get("/api/webhook-secret").json()["secret"]
    signed = headers["x-flowcatalyst-timestamp"].encode() + delivery.body
    expected = hmac.digest(parse_secret(secret), signed, "sha256").hex()
    assert headers["x-flowcatalyst-signature"] == expected
    assert headers["x-flowcatalyst-id"] == posted["id"]
    assert "webhook-signature" not in headers
    usual = shipper.post(target)
    assert usual["signature"] == "standard"
    assert "webhook-signature" in target.gets(2)[1].headers


def test_a_job_is_about_a_client_and_its_payload_is_what_its_schema_says(
    shipper: DispatchApi,
) -> None:
    target, client = shipper.receiver.place(), new_id()
    kept = shipper.http.post(
        "/api/schemas",
        json={"name": "Order", "schemaType": "JSON_SCHEMA", "content": {"required": ["order"]}},
    )
    assert kept.status_code == 201, kept.text
    schema = kept.json()["id"]
    wish = shipper.body(target, schemaId=schema, clientId=client, payload={"order": 7})
    reply = shipper.http.post(JOBS, json=wish)
    assert reply.status_code == 201, reply.text
    posted = reply.json()
    assert (posted["clientId"], posted["schemaId"]) == (client, schema)
    (delivery,) = target.gets(1)
    assert delivery.headers["x-muster-client-id"] == client
    found = shipper.http.get(JOBS, params={"clientId": client}).json()["items"]
    assert [one["id"] for one in found] == [posted["id"]]

    wrong = wish | {"payload": {"parcel": 7}}
    refused = assert_problem(shipper.http.post(JOBS, json=wrong), 422, "schema_mismatch")
    assert faulty_fields(refused) == {"payload"}
    batch = shipper.http.post(f"{JOBS}/batch", json=[wish, wrong])
    assert faulty_fields(assert_problem(batch, 422, "schema_mismatch")) == {"[1].payload"}
    unknown = shipper.http.post(JOBS, json=wish | {"schemaId": "sch_0000000000000"})
    assert faulty_fields(assert_problem(unknown, 422, "invalid")) == {"schemaId"}
    assert len(target.deliveries) == 1


def test_an_events_job_is_about_the_client_that_the_event_names(shipper: DispatchApi) -> None:
    target, client, type_ = shipper.receiver.place(), new_id(), new_type()
    made = shipper.http.post(
        "/api/subscriptions",
        json={
            "code": f"code-{new_id()}",
            "name": "Orders",
            "eventTypes": [{"eventTypeCode": type_}],
            "target": target.url,
            "dispatchPoolId": shipper.pool,
        },
    )
    assert made.status_code == 201, made.text
    context = [{"key": "clientId", "value": client}]
    event = {"type": type_, "source": "test", "data": {}, "contextData": context}
    assert shipper.http.post("/api/events", json=event).status_code == 201
    (delivery,) = target.gets(1)
    assert delivery.headers["x-muster-client-id"] == client
    (found,) = shipper.http.get(JOBS, params={"clientId": client}).json()["items"]
    assert (found["kind"], found["clientId"], found["schemaId"]) == ("EVENT", client, None)


def test_a_text_is_delivered_as_it_is(shipper: DispatchApi) -> None:
    target = shipper.receiver.place()
    posted = shipper.post(target, payload="<order nr='7'/>", payloadContentType="application/xml")
    (delivery,) = target.gets(1)
    assert delivery.body == b"<order nr='7'/>"
    assert delivery.headers["content-type"] == "application/xml"
    shown = shipper.becomes(posted["id"], "COMPLETED")
    assert (shown["payload"], shown["payloadEncoding"]) == ("<order nr='7'/>", "text")


def test_an_envelope_is_put_round_it_once(shipper: DispatchApi) -> None:
    target = shipper.receiver.place()
    posted = shipper.post(target, dataOnly=False, subject="order:7")
    (delivery,) = target.gets(1)
    envelope = delivery.document
    assert (envelope["id"], envelope["kind"]) == (posted["id"], "TASK")
    assert (envelope["code"], envelope["subject"]) == ("shop:orders:order:ship", "order:7")
    assert envelope["data"] == {"n": 1}


def test_a_known_key_is_the_first_job(shipper: DispatchApi) -> None:
    target = shipper.receiver.place()
    wish = shipper.body(target, idempotencyKey=new_id())
    first = shipper.http.post(JOBS, json=wish)
    again = shipper.http.post(JOBS, json=wish | {"payload": {"n": 2}})
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    batch = shipper.http.post(f"{JOBS}/batch", json=[wish, shipper.body(target)]).json()
    assert (batch["count"], batch["knownCount"]) == (2, 1)
    assert batch["jobs"][0]["id"] == first.json()["id"]
    shipper.becomes(batch["jobs"][1]["id"], "COMPLETED")
    assert [delivery.document for delivery in target.deliveries].count({"n": 2}) == 0
    assert len(target.deliveries) == 2


def test_a_batch_is_delivered_in_its_order_within_each_group(shipper: DispatchApi) -> None:
    target = shipper.receiver.place()
    groups = [new_id() for _ in range(4)]
    batch = [
        shipper.body(
            target,
            payload={"group": groups[n % 4], "n": n},
            messageGroup=groups[n % 4],
            mode="BLOCK_ON_ERROR",
        )
        for n in range(100)
    ]
    made = shipper.http.post(f"{JOBS}/batch", json=batch)
    assert made.status_code == 201, made.text
    assert made.json()["count"] == 100
    came = [delivery.document for delivery in target.gets(100)]
    for group in groups:
        order = [one["n"] for one in came if one["group"] == group]
        assert order == sorted(order)
    assert len(came) == 100


def test_one_that_may_not_be_stored_stops_its_batch(shipper: DispatchApi) -> None:
    target = shipper.receiver.place()
    good = shipper.body(target, code=new_id())
    for wrong, field in (
        ({"targetUrl": "http://10.0.0.1/"}, "[1].targetUrl"),
        ({"targetUrl": "http://[::ffff:169.254.169.254]/"}, "[1].targetUrl"),
        ({"dispatchPoolId": "nobody"}, "[1].dispatchPoolId"),
        ({"mode": "SOMETIMES"}, "[1].mode"),
    ):
        reply = shipper.http.post(f"{JOBS}/batch", json=[good, good | wrong])
        assert faulty_fields(assert_problem(reply, 422, "invalid")) == {field}
    found = shipper.http.get(JOBS, params={"code": good["code"]}).json()
    assert found["items"] == []
    assert target.deliveries == []


def test_a_job_waits_for_its_time_and_not_beyond_its_end(shipper: DispatchApi) -> None:
    target = shipper.receiver.place()
    began = time.monotonic()
    later = shipper.post(target, delaySeconds=1)
    assert later["scheduledFor"] is not None
    over = shipper.post(target, expiresAt="2020-01-01T00:00:00Z")
    assert shipper.becomes(over["id"], "EXPIRED")["attempts"] == []
    shipper.becomes(later["id"], "COMPLETED")
    assert time.monotonic() - began >= 1
    assert [delivery.headers["webhook-id"] for delivery in target.deliveries] == [later["id"]]
