"""The dispatch demo without a network: what it verifies, what it promises, what it shows."""

import base64
import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from rich.console import Console
from standardwebhooks import Webhook

from cli.shell.errors import CommandError
from core.dispatch.job import Mode
from core.dispatch.signature import format_secret, sign_standard
from tests.support.command_line import FakeMuster, client_of
from tools.demo.dispatch.panel import DispatchPanel, deliveries_table
from tools.demo.dispatch.receiver import (
    BUSY,
    OK,
    REFUSED,
    TOLERANCE,
    DemoDelivery,
    DemoReceiver,
    is_signed_by,
)
from tools.demo.dispatch.run import (
    DispatchDemo,
    DispatchRun,
    busiest_second,
    group_history,
    order,
    order_text,
)
from tools.demo.dispatch.script import SCENARIOS
from tools.demo.dispatch.setup import SUBSCRIBERS, DemoNames, demo_subscriptions
from tools.demo.runner import play as play_scenario
from tools.demo.scenario import Facts, ScenarioResult, ScriptedScenario
from tools.demo.screen import results_table

NOW = 1_900_000_000.0
OLD, NEW = (format_secret(bytes([number]) * 32) for number in (1, 2))
BODY = b'{"order": 1, "customer": "customer-1", "total": 9.5}'


def arrival(
    subscriber: str = "billing",
    number: int = 1,
    customer: str = "customer-1",
    answered: int = OK,
    **more: Any,
) -> DemoDelivery:
    return DemoDelivery(
        **{
            "subscriber": subscriber,
            "job_id": "0PJ3F6SK81VB8",
            "body": order_text(number, customer).encode(),
            "content_type": "application/json",
            "signed_by": (OLD,),
            "answered": answered,
            **more,
        }
    )


# Verifying


def test_what_the_library_of_receivers_signs_and_believes_so_does_the_demo() -> None:
    at = datetime.fromtimestamp(NOW, UTC)
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(NOW)),
        "webhook-signature": Webhook(OLD).sign("msg_1", at, BODY.decode()),
    }
    assert is_signed_by(OLD, headers, BODY, NOW)
    assert not is_signed_by(NEW, headers, BODY, NOW)
    assert not is_signed_by(OLD, headers, BODY + b" ", NOW)


def test_what_muster_signs_with_two_secrets_either_verifies() -> None:
    keys = [base64.b64decode(one.removeprefix("whsec_")) for one in (OLD, NEW)]
    headers = sign_standard(keys, "msg_1", int(NOW), BODY)
    assert is_signed_by(OLD, headers, BODY, NOW)
    assert is_signed_by(NEW, headers, BODY, NOW)


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": ""},
        {"webhook-id": "msg_2"},
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "soon"},
        {"webhook-timestamp": str(int(NOW - TOLERANCE - 1))},
        {"webhook-timestamp": str(int(NOW + TOLERANCE + 1))},
        {"webhook-signature": ""},
        {"webhook-signature": "v2,abc"},
    ],
    ids=str,
)
def test_what_is_forged_or_old_is_not_believed(change: dict[str, str]) -> None:
    key = base64.b64decode(OLD.removeprefix("whsec_"))
    headers = sign_standard([key], "msg_1", int(NOW), BODY)
    assert not is_signed_by(OLD, {**headers, **change}, BODY, NOW)


# The receiver


def test_the_receiver_answers_as_it_is_told() -> None:
    receiver = DemoReceiver()
    poisoned = order_text(2, "customer-1").encode()
    enveloped = json.dumps({"id": "j", "eventId": "e", "data": order(2, "customer-1")}).encode()
    receiver.poison("customer-1", 2)
    assert receiver._answer("tracking", poisoned) == (REFUSED, {})
    assert receiver._answer("tracking", enveloped) == (REFUSED, {})
    assert receiver._answer("tracking", order_text(2, "customer-2").encode()) == (OK, {})
    receiver.clear_poison()
    assert receiver._answer("tracking", poisoned) == (OK, {})
    receiver.refuse_next("ledger", 7)
    assert receiver._answer("billing", BODY) == (OK, {})
    assert receiver._answer("ledger", BODY) == (BUSY, {"Retry-After": "7"})
    assert receiver._answer("ledger", BODY) == (OK, {}), "once is enough"


async def test_the_receiver_remembers_what_verified_and_tells() -> None:
    receiver = DemoReceiver()
    receiver.secrets["billing"] = [OLD, NEW]
    told: list[DemoDelivery] = []
    receiver.listener = told.append
    key = base64.b64decode(NEW.removeprefix("whsec_"))
    headers = sign_standard([key], "msg_1", int(time.time()), BODY)
    receiver._record("billing", headers, BODY, OK)
    (one,) = receiver.deliveries
    assert (one.signed_by, one.job_id, told) == ((NEW,), "msg_1", [one])
    assert await receiver.until(lambda seen: seen.deliveries, 1.0) == [one]


def test_an_arrival_knows_its_event_in_either_form() -> None:
    alone = arrival(number=3)
    envelope = {"id": "j", "eventId": "e", "data": order(3, "customer-1")}
    around = arrival(body=json.dumps(envelope).encode())
    assert (alone.data, alone.is_enveloped) == (order(3, "customer-1"), False)
    assert (around.data, around.is_enveloped) == (order(3, "customer-1"), True)
    marks = [arrival(answered=status).mark() for status in (OK, REFUSED, BUSY)]
    assert marks == ["1", "✗1", "◌1"]


def test_lanes_and_seconds() -> None:
    came = [arrival(number=1), arrival(number=2, answered=REFUSED), arrival("audit", 9)]
    assert group_history(came, "billing", "customer-1") == "1 ✗2"
    assert group_history(came, "billing", "customer-2") == "nothing"
    assert busiest_second([]) == 0
    assert busiest_second([0.0, 0.5, 0.99, 1.0, 5.0]) == 3


# The story


def test_the_story_has_all_that_was_asked_for() -> None:
    assert [one.key for one in SCENARIOS] == [
        "fan-out",
        "schema",
        "duplicate",
        "order",
        "skip",
        "resume",
        "busy",
        "rate",
        "rotation",
    ]
    assert {role.mode for role in SUBSCRIBERS} == set(Mode)
    assert all(one.facts and one.description for one in SCENARIOS)
    names = DemoNames(run_id="ab12cd")
    assert names.type_of("order:placed") == "demo-ab12cd:shop:order:placed"
    assert names.group_of("tracking", "customer-1") == "demo-ab12cd-tracking:customer-1"


class Script:
    """A scene that does what a test wants."""

    def __init__(self, *facts: str, fault: str | None = None) -> None:
        self.facts, self.fault = facts, fault

    async def play(self, run: DispatchRun) -> Sequence[str]:
        run.panel.note("sent", "one event")
        run.receiver._record("billing", {}, BODY, OK)
        if self.fault is not None:
            raise CommandError(self.fault)
        return self.facts


def demo() -> DispatchDemo:
    def nobody(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    return DispatchDemo(client_of(nobody), DemoReceiver(), DemoNames(run_id="ab12cd"))


async def play(script: Script) -> tuple[ScenarioResult, str]:
    console = Console(width=100, force_terminal=False, color_system=None)
    scene = ScriptedScenario(
        key="k", title="Title", description="Story.", facts=("a", "b"), play=script.play
    )
    with console.capture() as capture:
        result = await play_scenario(scene, DispatchRun(demo(), scene, "1/1"), console)
    return result, capture.get()


async def test_a_scene_is_right_only_if_all_of_it_is() -> None:
    right, page = await play(Script("a", "b"))
    assert right.ok
    assert "as expected" in page
    assert "billing" in page
    wrong, page = await play(Script("a", "c"))
    assert not wrong.ok
    assert "not as expected" in page
    assert wrong.document() | {"seconds": 0} == {
        "scene": "k",
        "title": "Title",
        "expected": "a; b",
        "seen": "a; c",
        "ok": False,
        "arrived": 1,
        "seconds": 0,
    }
    broken, _ = await play(Script(fault="Muster is away."))
    assert not broken.ok
    assert broken.actual_sentence == "Muster is away."


async def test_a_scene_that_does_not_end_says_what_had_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tools.demo.dispatch.run.LIMIT", 0.01)

    class Endless(Script):
        async def play(self, run: DispatchRun) -> Sequence[str]:
            await super().play(run)
            await run.wait_for_count(2)
            return ()

    late, _ = await play(Endless())
    assert late.actual_sentence.startswith("not at its end after 0.01 s")
    assert late.actual_sentence.endswith("billing customer-1: 1")


def test_what_arrived_is_told_by_subscriber() -> None:
    came = [
        arrival("tracking"),
        arrival("tracking", answered=REFUSED),
        arrival("tracking", signed_by=()),
        arrival("ledger", answered=BUSY),
    ]
    with (console := Console(width=120, color_system=None)).capture() as capture:
        console.print(deliveries_table(came))
        console.print(
            results_table([ScenarioResult(scenario=SCENARIOS[0], actual=Facts(), seconds=1.0)])
        )
    rows = {
        words[0]: words[1:]
        for line in capture.get().splitlines()
        if (words := [cell.strip() for cell in line.strip("│").split("│")])
    }
    assert rows["tracking"] == ["BLOCK_ON_ERROR", "default", "3", "2", "2", "1", "0"]
    assert rows["ledger"] == ["IMMEDIATE", "muster-demo", "1", "1", "0", "0", "1"]
    assert rows["fan-out"][-1] == "✗"


def test_the_panel_shows_lanes_and_timeline() -> None:
    view = DispatchPanel(SCENARIOS[3], "4/9")
    for number, answered in ((1, OK), (2, REFUSED)):
        view.note_delivery(arrival("tracking", number, answered=answered))
    view.note("blocked", "it is blocked")
    with (console := Console(width=100, color_system=None)).capture() as capture:
        console.print(view)
    assert "tracking  customer-1  1 ✗2" in capture.get()
    assert "■  it is blocked" in capture.get()


# Leaving nothing behind


async def test_what_was_made_is_taken_away_also_if_it_broke_off() -> None:
    asked: list[str] = []
    gone = {"status": 404, "detail": "there is none"}

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path}")
        if request.method == "GET" and request.url.path.endswith("/muster-demo"):
            return httpx.Response(404, json=gone)
        if request.url.path.endswith("demo-ab12cd-tracking") and request.method == "GET":
            return httpx.Response(404, json=gone)
        return httpx.Response(200, json={"id": "sub_1", "secret": OLD})

    receiver = DemoReceiver()
    made = 0

    async def break_off() -> None:
        nonlocal made
        async with demo_subscriptions(client_of(answer), receiver, "ab12cd"):
            made = len(asked)
            raise RuntimeError("it broke off")

    with pytest.raises(RuntimeError):
        await break_off()
    assert receiver.secrets == {role.name: [OLD] for role in SUBSCRIBERS}
    deleted = [one for one in asked[made:] if one.startswith("DELETE")]
    subscriptions = [f"demo-ab12cd-{role.name}" for role in SUBSCRIBERS if role.name != "tracking"]
    assert [one.rpartition("/")[2] for one in deleted] == [
        *subscriptions,
        "demo-ab12cd:shop:order:placed",
        "demo-ab12cd:shop:parcel:moved",
        "demo-ab12cd:shop:invoice:billed",
        "muster-demo",
    ]
    assert "POST /api/dispatch-jobs/cancel" in asked[made:]


async def test_a_pool_that_others_need_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.demo.dispatch.setup._POOL_TIMEOUT", 0.0)
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path}")
        if request.method == "DELETE" and request.url.path.endswith("/muster-demo"):
            return httpx.Response(409, json={"code": "pool_in_use", "detail": "somebody needs it"})
        return httpx.Response(200, json={"id": "sub_1", "secret": OLD})

    async with demo_subscriptions(client_of(answer), DemoReceiver(), "ab12cd"):
        pass
    assert "POST /api/dispatch-pools/muster-demo/activate" in asked, "it was there before"
    assert "PATCH /api/dispatch-pools/muster-demo" in asked


def test_help_has_an_example(muster: FakeMuster) -> None:
    shown = muster.run("demo", "dispatch", "--help")
    assert "muster demo dispatch" in shown.stdout.rpartition("Example")[2]
    assert "dispatch" in muster.run("demo", "--help").stdout
