"""The demo's script, played against the pure core: what it promises is what the rules say."""

import json
from typing import Any

import msgspec
import pytest

from core.shared.address import Address
from core.waits.config import WaitConfig
from core.waits.inbox import UnregisteredAddress
from core.waits.messages import Expire, Offer, OfferReply, Register
from core.waits.spec import Source, encode_spec
from core.waits.state import ParkedEvent, Wait
from core.waits.strategy import Status
from core.waits.transitions import apply
from tools.demo.scenario import ScenarioResult
from tools.demo.screen import results_table
from tools.demo.waits.run import ended_text, foreign_data, read_outcome, with_service
from tools.demo.waits.script import (
    API,
    BROKER_SCENARIOS,
    KAFKA,
    SCENARIOS,
    SERVICE_URL,
    ScriptedEvent,
    Via,
    WaitDemoOutcome,
    WaitScenario,
    verdict_text,
)
from tools.demo.waits.service import SentEvent, ServiceCall, read_call

SOURCES = {Via.CALLBACK: Source.API, Via.KAFKA: Source.KAFKA, Via.TOPIC: Source.KAFKA}


class Rehearsal:
    """One scene on the pure core: no server, no clock."""

    def __init__(self, scene: WaitScenario) -> None:
        self.scene = scene
        self.address = Address(1, "mine", "process")
        self.wait: Wait | None = None
        self.parked: list[ParkedEvent] = []
        self.verdicts: list[str] = []

    def play(self) -> WaitDemoOutcome:
        for arrival in self.scene.early:
            self._offer(arrival, -1.0, 0)
        self._register()
        for number, arrival in enumerate(sorted(self.scene.events, key=lambda a: a.at), 1):
            self._offer(arrival, arrival.at, number)
        assert self.wait is not None
        if self.wait.status is Status.WAITING:
            expire = Expire(address=self.address, turn_id="end", at=self.wait.due_at)
            self.wait = apply(self.wait, expire, self.wait.due_at).wait
        assert self.wait is not None
        assert self.wait.ending is not None
        outcomes = self.wait.outcomes
        received = frozenset(name for name, outcome in outcomes.items() if outcome == "received")
        return WaitDemoOutcome(
            status=self.wait.status.value,
            received=received,
            lacking=frozenset(outcomes) - received,
            partial=self.wait.ending.partial,
            warned=self.wait.ending.warning is not None,
            verdicts=tuple(self.verdicts),
        )

    def _register(self) -> None:
        config = WaitConfig.model_validate(with_service(self.scene.config, "http://127.0.0.1:1"))
        message = Register(
            address=self.address, turn_id="open", node_id="n", spec=encode_spec(config.to_spec())
        )
        self.wait = apply(None, message, 0.0, UnregisteredAddress(early=tuple(self.parked))).wait

    def _offer(self, arrival: ScriptedEvent, now: float, number: int) -> None:
        address = Address(1, "other", "process") if arrival.is_foreign else self.address
        offer = Offer(
            address=address,
            turn_id=f"turn-{len(self.verdicts)}",
            event_id=arrival.sent_as or str(number),
            source=SOURCES[arrival.via],
            label="process.completed",
            payload=json.dumps(arrival.data).encode(),
        )
        if arrival.is_foreign:
            decision = apply(
                None, offer, now, UnregisteredAddress(elsewhere=self.address.execution_id)
            )
        else:
            decision = apply(self.wait, offer, now)
            self.wait = decision.wait
            self.parked += decision.parked
        assert isinstance(decision.reply, OfferReply)
        reply = decision.reply
        self.verdicts.append(verdict_text(arrival.via, reply.verdict.value, reply.reason.value))


@pytest.mark.parametrize("scene", [*SCENARIOS, *BROKER_SCENARIOS], ids=lambda scene: scene.key)
def test_every_scene_promises_what_the_rules_say(scene: WaitScenario) -> None:
    assert Rehearsal(scene).play() == scene.expected


def test_the_story_has_all_that_was_asked_for() -> None:
    verdicts = {arrival.verdict for s in SCENARIOS for arrival in (*s.early, *s.events)}
    assert verdicts == {"matched", "buffered", "duplicate", "late", "rejected"}
    policies = [scene.config.get("onTimeout") for scene in SCENARIOS if "onTimeout" in scene.config]
    assert policies == ["fail", "continue", "continue_with_partial"]
    assert [s.title[:9] for s in SCENARIOS if s.title.startswith("Example")] == [
        "Example 1",
        "Example 1",
        "Example 2",
        "Example 3",
        "Example 4",
        "Example 5",
    ]
    assert any(arrival.is_foreign for scene in SCENARIOS for arrival in scene.events)


def test_the_story_is_short() -> None:
    lasts = [
        max([float(scene.config["timeout"]) if "onTimeout" in scene.config else 0.0]
            + [arrival.at for arrival in scene.events])
        for scene in SCENARIOS
    ]  # fmt: skip
    assert sum(lasts) + 0.5 * len(SCENARIOS) < 20


def test_scenes_can_be_told_apart() -> None:
    assert len({scene.key for scene in SCENARIOS}) == len(SCENARIOS)


def test_the_fake_service_takes_the_place_of_the_example_s_address() -> None:
    with_api = next(scene for scene in SCENARIOS if scene.calls_api)
    assert with_api.config["apiCall"]["url"] == SERVICE_URL
    placed = with_service(with_api.config, "http://127.0.0.1:5")
    assert placed["apiCall"]["url"] == "http://127.0.0.1:5/process"


def test_a_call_is_read_with_its_ids_and_callback_url() -> None:
    body = {"execution_id": "e", "correlation_id": "c", "callbackUrl": "http://x"}
    assert read_call(json.dumps(body).encode()) == ServiceCall(
        execution_id="e", correlation_id="c", callback_url="http://x"
    )


@pytest.mark.parametrize("body", [b"", b"[]", b'{"execution_id": "e"}'])
def test_a_call_without_ids_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_call(body)


ARRIVAL = ScriptedEvent(via=Via.CALLBACK, at=0, data={"a": 1})
STATE: dict[str, Any] = {
    "status": "completed",
    "partial": True,
    "warning": None,
    "events": {
        API: {"outcome": "received", "eventId": "x", "data": {"a": 1}},
        KAFKA: {"outcome": "timed_out"},
    },
}


def test_an_outcome_is_read_from_the_state_and_the_verdicts() -> None:
    delivery = SentEvent(ARRIVAL, {"verdict": "late", "reason": "wait_ended"})
    seen = read_outcome(STATE, [delivery])
    assert seen == WaitDemoOutcome(
        status="completed",
        received=frozenset({API}),
        lacking=frozenset({KAFKA}),
        partial=True,
        verdicts=("callback late (wait_ended)",),
    )
    assert str(seen) == (
        "completed, partial: api_response, without kafka_event; callback late (wait_ended)"
    )


def test_data_of_another_event_is_a_fault() -> None:
    right = SentEvent(ARRIVAL, {"verdict": "matched", "eventId": "x"})
    assert foreign_data(STATE, [right]) == []
    assert foreign_data(STATE, []) == ["api_response has the id x, which nobody sent"]
    other = SentEvent(ScriptedEvent(via=Via.CALLBACK, at=0, data={"a": 2}), {"eventId": "x"})
    assert foreign_data(STATE, [other]) == ["api_response carries {'a': 1}"]


def result(scene: WaitScenario, seen: WaitDemoOutcome, *faults: str) -> ScenarioResult:
    return ScenarioResult(scenario=scene, actual=seen, seconds=1.0, faults=faults)


def test_a_scene_is_right_only_if_all_of_it_is() -> None:
    scene = SCENARIOS[0]
    assert result(scene, scene.expected).ok
    assert not result(scene, scene.ends).ok, "the verdicts are missing"
    failed = result(scene, scene.expected, "explain does not list x")
    assert not failed.ok
    assert failed.document()["seen"].endswith("; explain does not list x")


def test_the_summary_has_a_line_for_each_scene() -> None:
    table = results_table([result(scene, scene.expected) for scene in SCENARIOS])
    assert table.row_count == len(SCENARIOS)


def test_words_on_the_screen() -> None:
    assert SCENARIOS[0].rules == "all, 30 s, onTimeout fail"
    assert ended_text({"status": "completed"}) == "completed"
    assert "with a warning: w" in ended_text({"status": "completed", "warning": "w"})
