"""Gathers of any resources: registered or sent along, answering at once or by callback."""

import asyncio
import base64
import re
from typing import Any

import pytest

from tests.support.gathering import GatherClient, until
from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import free_port, new_id
from tools.demo.gathers.calls import Behaviour

INLINE = {"name": "a", "url": "http://127.0.0.1:9/"}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def states(document: dict[str, Any]) -> dict[str, str]:
    return {name: one["state"] for name, one in document["resources"].items()}


async def test_names_and_whole_resources_in_one_gather(gatherings: GatherClient) -> None:
    by_callback = await gatherings.register()
    direct = await gatherings.register(reply="direct")
    inline = gatherings.inline()
    context = {"patientId": "17", "delay": 20, "nested": {"n": 10**20, "f": 1.5, "t": "ä\n"}}
    begun = await gatherings.gather(by_callback, direct, inline, context=context, timeoutMs=9_000)
    names = [by_callback, direct, inline["name"]]
    assert begun["id"] == begun["correlationId"]
    assert (begun["status"], begun["resources"]) == ("waiting", names)
    assert (begun["timeoutMs"], begun["url"]) == (
        9_000,
        f"{gatherings.product.url}/api/gathers/{begun['id']}",
    )
    *answers, summary = await gatherings.read(begun)
    assert {answer.outcome for answer in answers} == {("callback", name, "ok") for name in names}
    assert all(len(answer.data["data"]["notes"]) == 3 for answer in answers)
    at = summary.data.pop("at")
    assert summary.data == {
        "source": "MUSTER",
        "correlationId": begun["id"],
        "status": "COMPLETE",
        "completeness": "full",
        "respondents": 3,
        "errors": 0,
        "received": 3,
        "expected": 3,
        "context": context,
    }
    shown = await gatherings.show(begun["id"])
    assert (shown["endedAt"], shown["expiresAt"]) == (at, begun["expiresAt"])
    assert states(shown) == dict.fromkeys(names, "ok")
    assert {name: one["data"] for name, one in shown["resources"].items()} == {
        answer.data["source"]: answer.data["data"] for answer in answers
    }

    for call in gatherings.calls(begun["id"]):
        told = {"correlationId": begun["id"], "resource": call.source, "context": context}
        if call.source == by_callback:
            told["callbackUrl"] = call.headers["X-Callback-Url"]
            path = f"/api/internal/callbacks/{by_callback}?token="
            assert told["callbackUrl"].startswith(gatherings.product.url + path)
        else:
            assert "X-Callback-Url" not in call.headers
        assert call.body == told
        assert call.headers["X-Correlation-Id"] == begun["id"]
        assert call.headers["Idempotency-Key"] == f"{begun['id']}/{call.source}"


async def test_waiting_gives_the_same_document(gatherings: GatherClient) -> None:
    by_callback, inline = await gatherings.register(), gatherings.inline()
    document = await gatherings.gather(by_callback, inline, mode="wait", context={"delay": 10})
    assert (document["status"], document["completeness"]) == ("completed", "full")
    assert document == await gatherings.show(document["id"])


async def test_every_way_to_answer_directly(gatherings: GatherClient) -> None:
    refused = {"name": "refused", "url": f"http://127.0.0.1:{free_port()}/"}
    nowhere = {"name": "nowhere", "url": f"{gatherings.resources.url}/no/such/path"}
    wrong = {"name": "wrong", "url": "http://127.0.0.1:99999/"}
    asked = {
        "ok": gatherings.inline(),
        "ERROR": gatherings.inline(Behaviour.ERROR),
        "CONNECTION_CLOSED": gatherings.inline(Behaviour.CLOSE),
        "TIMEOUT": gatherings.inline(Behaviour.HANG),
    }
    outcomes = {one["name"]: state for state, one in asked.items()}
    outcomes |= {"refused": "CONNECTION_CLOSED", "nowhere": "ERROR", "wrong": "ERROR"}
    rejecting = await gatherings.register(Behaviour.REJECT)
    outcomes[rejecting] = "REJECTED"
    slow = await gatherings.register(Behaviour.HANG, readTimeoutMs=100)
    outcomes[slow] = "TIMEOUT"
    document = await gatherings.gather(
        *asked.values(),
        *(refused, nowhere, wrong),
        *(rejecting, slow),
        mode="wait",
        timeoutMs=2_000,
    )
    assert states(document) == outcomes
    assert (document["respondents"], document["errors"]) == (1, 7)
    assert (document["received"], document["expected"]) == (9, 9)
    assert document["completeness"] == "partial"
    details = {name: one.get("detail") for name, one in document["resources"].items()}
    assert details["nowhere"] == "HTTP 404"
    assert details[rejecting] == "HTTP 401"
    assert details[slow] == "no answer within 0.1 s"
    assert "refused" in details["refused"]
    # What answered at once was not held up by what did not.
    ended = document["resources"]
    assert ended[slow]["at"] < ended[asked["TIMEOUT"]["name"]]["at"]


async def test_a_body_is_sent_as_it_is(gatherings: GatherClient) -> None:
    bodies: list[Any] = [{"delay": 5, "n": 10**20, "f": 0.1, "text": "ä\u2028"}, {"delay": 6}]
    inlines = [gatherings.inline(body=body) for body in bodies]
    document = await gatherings.gather(*inlines, mode="wait", context={"not": "sent"})
    assert document["respondents"] == 2
    calls = sorted(gatherings.calls(document["id"]), key=lambda call: call.body["delay"])
    assert [call.body for call in calls] == bodies
    assert document["context"] == {"not": "sent"}


async def test_callbacks_say_what_became_of_them(gatherings: GatherClient) -> None:
    """By the URL a resource was given, and by key and ids."""
    one, two = [await gatherings.register(Behaviour.SILENT) for _ in range(2)]
    begun = await gatherings.gather(one, two, timeoutMs=20_000)
    calls = {call.source: call for call in await gatherings.called(begun["id"], 2)}
    first = await gatherings.browser.post(calls[one].body["callbackUrl"], json={"n": 1})
    assert (first.status_code, first.json()["verdict"]) == (200, "matched")
    again = await gatherings.browser.post(calls[one].body["callbackUrl"], json={"n": 2})
    assert again.json()["verdict"] == "duplicate"
    ids = {"X-Correlation-Id": begun["id"], "X-Execution-Id": begun["id"]}
    stranger = await gatherings.http.post(
        "/api/internal/callbacks/somebody", json={"n": 3}, headers=ids
    )
    assert stranger.json()["verdict"] == "rejected"
    assert states(await gatherings.show(begun["id"]))[two] in {"calling", "accepted"}
    second = await gatherings.http.post(
        f"/api/internal/callbacks/{two}", json={"n": 4}, headers=ids
    )
    assert (second.json()["verdict"], second.json()["waitStatus"]) == ("matched", "completed")
    late = await gatherings.browser.post(calls[two].body["callbackUrl"], json={"n": 5})
    assert (late.status_code, late.json()["verdict"]) == (200, "late")
    shown = await gatherings.show(begun["id"])
    assert [shown["resources"][name]["data"] for name in (one, two)] == [{"n": 1}, {"n": 4}]
    log = {entry["type"]: entry.get("data") for entry in await gatherings.log(begun["id"])}
    assert (log["duplicate"], log["late"]) == ({"n": 2}, {"n": 5})


# What a resource is told about its caller


async def test_headers_and_credentials_arrive(gatherings: GatherClient) -> None:
    headers = {"X-Unit": "7", "accept": "application/json", "content-type": "application/x+json"}
    bearer = await gatherings.register(
        auth={"type": "bearer", "token": "very-secret"}, headers=headers
    )
    basic = await gatherings.register(
        auth={"type": "basic", "username": "nurse", "password": "pä:ss"}
    )
    trace = f"00-{TRACE}-00f067aa0ba902b7-01"
    inline = gatherings.inline(headers={"X-Unit": "8"})
    reply = await gatherings.http.post(
        "/api/gathers",
        json={"resources": [bearer, basic, inline], "mode": "wait"},
        headers={"traceparent": trace},
    )
    calls = {call.source: call for call in gatherings.calls(reply.json()["id"])}
    assert calls[bearer].headers["Authorization"] == "Bearer very-secret"
    assert calls[bearer].headers["X-Unit"] == "7"
    names = [name.lower() for name in calls[bearer].headers]
    assert len(names) == len(set(names)), "no header is sent twice"
    assert calls[bearer].headers["Content-Type"] == "application/x+json"
    expected = base64.b64encode("nurse:pä:ss".encode()).decode()
    assert calls[basic].headers["Authorization"] == f"Basic {expected}"
    assert "Authorization" not in calls[inline["name"]].headers
    assert calls[inline["name"]].headers["X-Unit"] == "8"
    for call in calls.values():
        continued = re.fullmatch(rf"00-{TRACE}-([0-9a-f]{{16}})-01", call.headers["traceparent"])
        assert continued
        assert continued[1] != "00f067aa0ba902b7"
        assert call.headers["User-Agent"].startswith("muster/")


@pytest.mark.parametrize("given", ["", "nonsense", f"00-{'0' * 32}-{'1' * 16}-01"])
async def test_a_trace_that_is_none_is_begun(gatherings: GatherClient, given: str) -> None:
    reply = await gatherings.http.post(
        "/api/gathers",
        json={"resources": [gatherings.inline()], "mode": "wait"},
        headers={"traceparent": given},
    )
    (call,) = gatherings.calls(reply.json()["id"])
    assert re.fullmatch(r"00-(?!0{32})[0-9a-f]{32}-[0-9a-f]{16}-01", call.headers["traceparent"])


async def test_a_changed_resource_is_asked_as_it_is_now(gatherings: GatherClient) -> None:
    name = await gatherings.register(headers={"X-Unit": "old"})
    (item,) = [
        one
        for one in (await gatherings.http.get("/api/resources")).json()["items"]
        if one["name"] == name
    ]
    changed = await gatherings.put(name, url=item["url"], headers={"X-Unit": "new"})
    assert changed["updatedAt"] > changed["createdAt"]
    document = await gatherings.gather(name, mode="wait")
    (call,) = gatherings.calls(document["id"])
    assert call.headers["X-Unit"] == "new"
    assert (await gatherings.http.delete(f"/api/resources/{name}")).status_code == 204
    reply = await gatherings.http.post("/api/gathers", json={"resources": [name]})
    problem = assert_problem(reply, 422, "invalid")
    assert f"PUT /api/resources/{name}" in problem["detail"]
    assert (await gatherings.show(document["id"]))["respondents"] == 1


# Bounds


async def test_a_resource_is_not_called_more_often_than_it_allows(gatherings: GatherClient) -> None:
    name = await gatherings.register(ratePerMinute=2)
    documents = await asyncio.gather(
        *(gatherings.gather(name, mode="wait", timeoutMs=1_500) for _ in range(3))
    )
    assert sorted(states(one)[name] for one in documents) == ["TIMEOUT", "ok", "ok"]
    assert sum(len(gatherings.calls(one["id"])) for one in documents) == 2


async def test_a_resource_gets_as_many_calls_at_once_as_it_allows(gatherings: GatherClient) -> None:
    name = await gatherings.register(Behaviour.HANG, concurrency=2)
    begun = [await gatherings.gather(name, timeoutMs=20_000) for _ in range(3)]
    first = await gatherings.called(begun[0]["id"])
    await gatherings.called(begun[1]["id"])
    assert gatherings.calls(begun[2]["id"]) == []
    await gatherings.http.delete(f"/api/gathers/{begun[0]['id']}")
    await gatherings.called(begun[2]["id"])
    assert first[0].abandoned
    for one in begun[1:]:
        await gatherings.http.delete(f"/api/gathers/{one['id']}")


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("resources", {"resources": []}),
        ("resources", {}),
        ("resources", {"resources": ["a", "a"]}),
        ("resources", {"resources": ["a", INLINE]}),
        ("resources", {"resources": [f"r{n}" for n in range(101)]}),
        ("resources[0]", {"resources": ["not a name"]}),
        ("resources[1]", {"resources": ["a", 7]}),
        ("resources[0].url", {"resources": [{"name": "a"}]}),
        ("resources[0].url", {"resources": [INLINE | {"url": "ftp://x/"}]}),
        ("resources[0].headers", {"resources": [INLINE | {"headers": {"Host": "y"}}]}),
        ("resources[0].reply", {"resources": [INLINE | {"reply": "maybe"}]}),
        ("mode", {"resources": ["a"], "mode": "later"}),
        ("context", {"resources": ["a"], "context": [1]}),
        ("timeoutMs", {"resources": ["a"], "timeoutMs": 0}),
        ("graceMs", {"resources": ["a"], "graceMs": -1}),
        ("onDisconnect", {"resources": ["a"], "onDisconnect": "stay"}),
    ],
)
async def test_what_makes_no_sense_is_422_and_named(
    gatherings: GatherClient, field: str, body: dict[str, Any]
) -> None:
    reply = await gatherings.http.post("/api/gathers", json=body)
    assert faulty_fields(assert_problem(reply, 422, "invalid")) == {field}


async def test_a_timeout_beyond_the_longest_is_capped(gatherings: GatherClient) -> None:
    body = {"resources": [gatherings.inline()], "timeoutMs": 60_000}
    reply = await gatherings.http.post("/api/gathers", json=body)
    assert reply.json()["timeoutMs"] == 27_000
    assert reply.headers["Warning"].startswith('299 muster "')


# Cancelling


async def test_cancelling_breaks_off_the_calls_under_way(gatherings: GatherClient) -> None:
    silent = await gatherings.register(Behaviour.SILENT)
    hanging, answering = gatherings.inline(Behaviour.HANG), gatherings.inline()
    begun = await gatherings.gather(silent, hanging, answering, timeoutMs=20_000)
    path = f"/api/gathers/{begun['id']}"
    calls = {call.source: call for call in await gatherings.called(begun["id"], 3)}

    async def answered() -> bool:
        return states(await gatherings.show(begun["id"]))[answering["name"]] == "ok"

    await until("one has answered", answered)
    reply = await gatherings.http.delete(path)
    assert (reply.status_code, reply.json()["status"]) == (200, "cancelled")
    assert reply.json()["completeness"] == "partial"
    assert (reply.json()["respondents"], reply.json()["errors"]) == (1, 0)
    await until("it is broken off", lambda: calls[hanging["name"]].abandoned)
    *_, summary = await gatherings.read(begun)
    assert (summary.event, summary.data["status"]) == ("summary", "CANCELLED")
    assert (summary.data["respondents"], summary.data["received"]) == (1, 1)
    late = await gatherings.browser.post(calls[silent].body["callbackUrl"], json={})
    assert (late.status_code, late.json()["verdict"]) == (200, "late")
    again = await gatherings.http.delete(path)
    assert again.json()["status"] == "cancelled", "to cancel twice is to cancel"


async def test_what_has_ended_cannot_be_cancelled(gatherings: GatherClient) -> None:
    document = await gatherings.gather(gatherings.inline(), mode="wait")
    reply = await gatherings.http.delete(f"/api/gathers/{document['id']}")
    assert_problem(reply, 409, "conflict")
    assert await gatherings.show(document["id"]) == document
    unknown = await gatherings.http.delete(f"/api/gathers/{new_id()}")
    assert_problem(unknown, 404, "not_found")
