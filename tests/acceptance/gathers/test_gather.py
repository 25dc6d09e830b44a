"""The journals of a patient: three resources asked at once, streamed or waited for."""

import asyncio
import itertools
import re
import time
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.gathering import JOURNALS, GatherClient, StreamEvent, until
from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product, new_id

# Long enough for every answer that comes at all, however busy the machine is.
TIMEOUT = 1_500
NEVER = 60_000

# What each delay leads to, then respondents, errors and completeness.
TABLE = {
    "all answer": ((10, 20, 30), ("ok", "ok", "ok"), (3, 0, "full")),
    "one rejects": ((10, -1, 20), ("ok", "REJECTED", "ok"), (2, 0, "partial")),
    "one is late": ((10, 20, NEVER), ("ok", "ok", "TIMEOUT"), (2, 1, "partial")),
    "all are late": ((NEVER, NEVER, NEVER), ("TIMEOUT",) * 3, (0, 3, "empty")),
    "all reject": ((-1, -1, -1), ("REJECTED",) * 3, (0, 0, "empty")),
}
KINDS = {"ok": "callback", "REJECTED": "rejected", "TIMEOUT": "timeout"}


def text(delays: tuple[int, ...]) -> str:
    return ",".join(map(str, delays))


# What comes out


async def test_the_table_of_results_by_stream(gatherings: GatherClient) -> None:
    async def run(delays: tuple[int, ...]) -> tuple[str, list[StreamEvent]]:
        begun = await gatherings.journals(text(delays), patientId="17", timeoutMs=TIMEOUT)
        return begun["correlationId"], await gatherings.read(begun)

    runs = await asyncio.gather(*(run(delays) for delays, _, _ in TABLE.values()))
    for (delays, statuses, expected), (correlation_id, told) in zip(
        TABLE.values(), runs, strict=True
    ):
        *answers, summary = told
        assert {event.outcome for event in answers} == {
            (KINDS[status], name, status) for name, status in zip(JOURNALS, statuses, strict=True)
        }
        assert len(answers) == 3
        assert all(one.id < other.id for one, other in itertools.pairwise(told))
        respondents, errors, completeness = expected
        assert summary.event == "summary"
        assert summary.data == {
            "source": "AGGREGATOR",
            "patientId": "17",
            "correlationId": correlation_id,
            "status": "COMPLETE",
            "respondents": respondents,
            "errors": errors,
            "received": 3,
            "completeness": completeness,
            "notes": None,
            "delayMs": None,
        }
        for event in answers:
            check_answer(event, correlation_id, delays)


def check_answer(event: StreamEvent, correlation_id: str, delays: tuple[int, ...]) -> None:
    """The whole object: what the resource said, and null for what nobody did."""
    source = event.data["source"]
    if event.event == "callback":
        assert event.data["delayMs"] == delays[JOURNALS.index(source)]
        assert len(event.data["notes"]) == 3
        for note in event.data["notes"]:
            assert (note["caregiverId"], note["patientId"]) == (f"Caregiver-{source}", "17")
    else:
        assert (event.data["delayMs"], event.data["notes"]) == (None, None)
    assert (event.data["patientId"], event.data["correlationId"]) == ("17", correlation_id)
    assert (event.data["respondents"], event.data["errors"]) == (None, None)


async def test_the_table_of_results_by_waiting(gatherings: GatherClient) -> None:
    results = await asyncio.gather(
        *(
            gatherings.everyone(text(delays), patientId="18", timeoutMs=TIMEOUT)
            for delays, _, _ in TABLE.values()
        )
    )
    for (_, statuses, expected), result in zip(TABLE.values(), results, strict=True):
        respondents, errors, completeness = expected
        assert (result["patientId"], result["status"]) == ("18", "COMPLETE")
        assert (result["respondents"], result["errors"]) == (respondents, errors)
        assert (result["received"], result["completeness"]) == (3, completeness)
        assert len(result["notes"]) == 3 * respondents
        assert {name: one["status"] for name, one in result["resources"].items()} == dict(
            zip(JOURNALS, statuses, strict=True)
        )
        assert [one["notes"] for one in result["resources"].values()] == [
            3 if status == "ok" else 0 for status in statuses
        ]
        shown = await gatherings.show(result["correlationId"])
        assert (shown["status"], shown["completeness"]) == ("completed", completeness)


async def test_the_timeline(gatherings: GatherClient) -> None:
    """Callbacks as they come, who is missing, the summary, the end; what comes late is kept."""
    began = time.monotonic()
    begun = await gatherings.journals("100,400,1600", timeoutMs=1_000)
    told, at = [], []
    async with gatherings.stream(begun) as events:
        async for event in events:
            told.append(event.outcome)
            at.append(time.monotonic() - began)
    assert told == [
        ("callback", "resource-1", "ok"),
        ("callback", "resource-2", "ok"),
        ("timeout", "resource-3", "TIMEOUT"),
        ("summary", "AGGREGATOR", "COMPLETE"),
    ]
    assert at[0] >= 0.1
    assert at[1] >= 0.4
    assert at[2] >= 1.0
    gather_id = begun["correlationId"]
    last = (await gatherings.called_back(gather_id, 3))[-1]
    assert (last.resource, last.status, last.verdict) == ("resource-3", 200, "late")
    late = (await gatherings.log(gather_id))[-1]
    assert (late["type"], late["event"], late["data"]["status"]) == ("late", "resource-3", "ok")
    shown = await gatherings.show(gather_id)
    assert shown["resources"]["resource-3"]["state"] == "TIMEOUT"
    assert (shown["respondents"], shown["errors"]) == (2, 1)
    again = await gatherings.read(begun)
    assert [event.outcome for event in again] == told, "what is late is not part of the story"


async def test_what_goes_wrong_has_its_name_and_holds_nobody_up(gatherings: GatherClient) -> None:
    """-11 closes the connection, -2 is a 500, -10 hangs: see tools/demo/gathers/behaviour.py."""
    began = time.monotonic()
    begun, waited = await asyncio.gather(
        gatherings.journals("-11,-2,-10", timeoutMs=1_000),
        gatherings.everyone("-11,-1,-10", timeoutMs=1_000),
    )
    told = await gatherings.read(begun)
    assert time.monotonic() - began < 10
    assert {event.outcome for event in told} == {
        ("error", "resource-1", "CONNECTION_CLOSED"),
        ("error", "resource-2", "ERROR"),
        ("timeout", "resource-3", "TIMEOUT"),
        ("summary", "AGGREGATOR", "COMPLETE"),
    }
    details = {event.data["source"]: event.data.get("detail") for event in told}
    assert "closed" in details["resource-1"]
    assert details["resource-2"] == "HTTP 500"
    assert (told[-1].data["respondents"], told[-1].data["errors"]) == (0, 3)
    assert (waited["respondents"], waited["errors"]) == (0, 2)
    assert [one["status"] for one in waited["resources"].values()] == [
        "CONNECTION_CLOSED",
        "REJECTED",
        "TIMEOUT",
    ]


@pytest.mark.parametrize(("delays", "accept"), [("9,9,9", 3), ("9,-1,9", 2), ("-10,9,-2", 1)])
async def test_the_first_answer_tells_how_many_accepted(
    gatherings: GatherClient, delays: str, accept: int
) -> None:
    """It does not wait long for them, so on a busy machine it may be fewer at first."""

    async def all_of_them() -> bool:
        begun = await gatherings.journals(delays, timeoutMs=500)
        assert begun["respondents"] <= accept
        return bool(begun["respondents"] == accept)

    await until(f"{accept} accept", all_of_them)


# What goes in


async def test_the_time_it_gets(gatherings: GatherClient) -> None:
    for given, expected in ((None, 10_000), (27_000, 27_000), (27_001, 27_000), (1, 1)):
        body = {"patientId": "p", "delays": "", "timeoutMs": given}
        reply = await gatherings.http.post("/aggregate/journals", json=body)
        assert reply.status_code == 200, reply.text
        assert reply.json()["timeoutMs"] == expected
        warned = reply.headers.get("Warning", "")
        assert bool(warned) == (given == 27_001)
        assert not warned or re.fullmatch(r'299 muster "[^"]*27001[^"]*27000[^"]*"', warned)
        shown = await gatherings.show(reply.json()["correlationId"])
        granted = moment(shown["expiresAt"]) - moment(shown["createdAt"])
        assert granted / timedelta(milliseconds=1) == pytest.approx(expected, abs=2)
    body = {"patientId": "p", "timeoutMs": 99_000, "strategy": "WAIT_FOR_EVERYONE"}
    reply = await gatherings.http.post("/aggregate/journals", json=body)
    assert "Warning" in reply.headers
    assert reply.json()["respondents"] == 3


def moment(told: str) -> datetime:
    return datetime.fromisoformat(told)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("timeoutMs", value) for value in (0, -1, 1.5, "1000", True, [1])),
        *(("strategy", value) for value in ("ALL", "", "SSE ", None, 1)),
        *(("delays", value) for value in ("1,x", "1;2", "1.5", "0x1", [1.5], ["1"], {}, 5, None)),
        *(("delays", value) for value in ("1" * 20, [10**30], [-(10**30)])),
        *(("patientId", value) for value in ("", None, 17, "p" * 256)),
        *(("onDisconnect", value) for value in ("stay", None)),
        *(("graceMs", value) for value in (-1, "0", 60_001)),
        ("color", "blue"),
    ],
)
async def test_what_makes_no_sense_is_422_and_named(
    gatherings: GatherClient, field: str, value: Any
) -> None:
    body = {"patientId": "p", "delays": "0,0,0", field: value}
    reply = await gatherings.http.post("/aggregate/journals", json=body)
    problem = assert_problem(reply, 422, "invalid")
    assert {name.partition(".")[0] for name in faulty_fields(problem)} == {field}


@pytest.mark.parametrize(
    ("delays", "asked"),
    [
        ("7", [7, 0, 0]),
        ("7, 8", [7, 8, 0]),
        ("", [0, 0, 0]),
        (",,9", [0, 0, 9]),
        ("7,8,9,10,11", [7, 8, 9]),
        ([7], [7, 0, 0]),
        ([], [0, 0, 0]),
        ([7, 8, 9, 10], [7, 8, 9]),
    ],
)
async def test_delays_in_every_form(
    gatherings: GatherClient, delays: Any, asked: list[int]
) -> None:
    result = await gatherings.everyone(delays)
    assert result["respondents"] == 3
    calls = sorted(gatherings.calls(result["correlationId"]), key=lambda call: call.resource)
    assert [call.delay for call in calls] == asked
    assert [one["delayMs"] for one in result["resources"].values()] == asked


async def test_the_strategy_in_any_case_and_the_short_form(gatherings: GatherClient) -> None:
    body = {"patientId": "p", "delays": "1,1,1"}
    for strategy in ("sse", "Sse", "SSE"):
        reply = await gatherings.http.post("/journals", json=body | {"strategy": strategy})
        assert set(reply.json()) == {"respondents", "correlationId", "timeoutMs", "streamUrl"}
    for strategy in ("wait_for_everyone", "Wait_For_Everyone"):
        reply = await gatherings.http.post("/journals", json=body | {"strategy": strategy})
        assert reply.json()["respondents"] == 3
    default = await gatherings.http.post("/journals", json=body)
    assert "streamUrl" in default.json()


async def test_what_a_resource_is_told(gatherings: GatherClient) -> None:
    begun, waited = await asyncio.gather(
        gatherings.journals("1,2,3", patientId="19121212-1212"),
        gatherings.everyone("1,2,3", patientId="19121212-1212"),
    )
    for gather_id, direct in ((begun["correlationId"], False), (waited["correlationId"], True)):
        calls = await gatherings.called(gather_id, 3)
        assert {call.resource for call in calls} == set(JOURNALS)
        for call in calls:
            assert call.direct is direct
            told = {"patientId": "19121212-1212", "correlationId": gather_id, "delay": call.delay}
            if not direct:
                url = call.headers["X-Callback-Url"]
                assert url.startswith(f"{gatherings.product.url}/aggregate/callback?token=")
                told["callbackUrl"] = url
            assert call.body == told
            assert call.headers["Idempotency-Key"] == f"{gather_id}/{call.resource}"
            assert call.headers["Content-Type"] == "application/json"


async def test_without_its_resources_it_says_what_to_do(stranger: Product) -> None:
    reply = await asyncio.to_thread(
        stranger.http.post, "/aggregate/journals", json={"patientId": "p"}
    )
    problem = assert_problem(reply, 409, "conflict")
    assert "PUT /api/resources/resource-1" in problem["detail"]
    assert all(name in problem["detail"] for name in JOURNALS)


# Callbacks


async def test_a_callback_counts_once_however_often_it_is_sent(gatherings: GatherClient) -> None:
    """-13 calls back twice: while the gather waits for another, and after it has ended."""
    waiting, ended = await asyncio.gather(
        gatherings.journals("-13,-13,-12", timeoutMs=1_000),
        gatherings.journals("-1,-1,-13"),
    )
    told, short = await asyncio.gather(gatherings.read(waiting), gatherings.read(ended))
    assert (told[-1].data["respondents"], told[-1].data["errors"]) == (2, 1)
    assert len(told) == 4
    assert short[-1].data["respondents"] == 1
    assert len(short) == 4

    async def verdicts(begun: dict[str, Any], count: int) -> list[str]:
        callbacks = await gatherings.called_back(begun["correlationId"], count)
        assert {callback.status for callback in callbacks} == {200}
        return [callback.verdict for callback in callbacks]

    assert sorted(await verdicts(waiting, 4)) == ["duplicate", "duplicate", "matched", "matched"]
    assert await verdicts(ended, 2) == ["matched", "late"]


async def test_a_callback_of_nobody_is_kept_as_rejected(gatherings: GatherClient) -> None:
    begun = await gatherings.journals("-12,-12,-12", timeoutMs=1_000)
    ids = {"correlationId": begun["correlationId"]}
    unknown = {"source": "resource-9", "status": "ok", "notes": [], **ids}
    reply = await gatherings.http.post("/aggregate/callback", json=unknown)
    assert (reply.status_code, reply.json()["verdict"]) == (200, "rejected")
    kept = (await gatherings.http.get("/api/inbox", params=ids)).json()["items"]
    assert [(one["verdict"], one["label"]) for one in kept] == [("rejected", "resource-9")]
    told = await gatherings.read(begun)
    assert {event.data["source"] for event in told} == {*JOURNALS, "AGGREGATOR"}

    nowhere = unknown | {"correlationId": new_id(), "source": "resource-1"}
    reply = await gatherings.http.post("/aggregate/callback", json=nowhere)
    assert (reply.status_code, reply.json()["verdict"]) == (200, "buffered")


@pytest.mark.parametrize(
    ("said", "event", "counts"),
    [
        ("ok", "callback", (1, 0)),
        ("OK", "callback", (1, 0)),
        (None, "callback", (1, 0)),
        ("REJECTED", "rejected", (0, 0)),
        ("timeout", "timeout", (0, 1)),
        ("CONNECTION_CLOSED", "error", (0, 1)),
        ("error", "error", (0, 1)),
    ],
)
async def test_a_callback_may_say_itself_how_it_went(
    gatherings: GatherClient, said: str | None, event: str, counts: tuple[int, int]
) -> None:
    begun = await gatherings.journals("-1,-1,-12", timeoutMs=20_000)
    callback = {"source": "resource-3", "status": said, "correlationId": begun["correlationId"]}
    reply = await gatherings.http.post("/aggregate/callback", json=callback)
    assert reply.json()["verdict"] == "matched"
    *answers, summary = await gatherings.read(begun)
    told = {answer.data["source"]: answer.event for answer in answers}
    assert told == {"resource-1": "rejected", "resource-2": "rejected", "resource-3": event}
    assert (summary.data["respondents"], summary.data["errors"]) == counts


async def test_callbacks_right_at_the_deadline_have_one_outcome_each(
    gatherings: GatherClient,
) -> None:
    """Some are in time and some are not; whichever, everybody is told the same."""
    outcomes: set[str] = set()
    for deadline in (1_500, 9_000):  # a busy machine needs longer to be in time at all
        starts = range(deadline // 5, deadline + 50, deadline // 75)
        runs = [race(gatherings, deadline, range(start, start + 3)) for start in starts]
        outcomes |= {status for run in await asyncio.gather(*runs) for status in run}
        if outcomes == {"ok", "TIMEOUT"}:
            break
    assert outcomes == {"ok", "TIMEOUT"}


async def race(gatherings: GatherClient, deadline: int, delays: range) -> list[str]:
    """One gather and two readers; how its resources answered, once all agree on that."""
    begun = await gatherings.journals(list(delays), timeoutMs=deadline)
    gather_id = begun["correlationId"]
    told, other = await asyncio.gather(gatherings.read(begun), gatherings.read(begun))
    assert told == other
    *answers, summary = told
    status = {event.data["source"]: event.data["status"] for event in answers}
    assert len(answers) == len(status) == 3
    counts = [list(status.values()).count(word) for word in ("ok", "TIMEOUT")]
    assert sum(counts) == 3
    assert [summary.data["respondents"], summary.data["errors"]] == counts
    shown = await gatherings.show(gather_id)
    assert [shown["respondents"], shown["errors"], shown["received"]] == [*counts, 3]
    assert {name: one["state"] for name, one in shown["resources"].items()} == status
    callbacks = await gatherings.called_back(gather_id, 3)
    assert {callback.resource: callback.verdict for callback in callbacks} == {
        name: "matched" if word == "ok" else "late" for name, word in status.items()
    }
    return list(status.values())
