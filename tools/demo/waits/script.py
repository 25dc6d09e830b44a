"""The scenarios of the wait demo: five configurations, three timeout policies, two safety rules.

A scenario is one wait, the events that come for it, and how it ends.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tools.demo.scenario import Scenario

API = "api_response"
KAFKA = "kafka_event"
TOPIC = "process.completed"


class Via(StrEnum):
    """The path an event takes."""

    CALLBACK = "callback"
    KAFKA = "kafka"  # the same as a topic's event, handed in by HTTP
    TOPIC = "topic"  # a message on a real broker


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedEvent:
    """An event of the external service, `at` seconds after the scenario began."""

    via: Via
    at: float
    data: Mapping[str, Any]
    verdict: str = "matched"
    reason: str = "expected"
    sent_as: str = ""  # the same name twice is the same event, sent again
    is_foreign: bool = False  # carries our correlation id, but another execution's id


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitDemoOutcome:
    """How a wait ends: the expected or the actual ending."""

    status: str = "completed"
    received: frozenset[str] = frozenset()
    lacking: frozenset[str] = frozenset()
    partial: bool = False
    warned: bool = False
    verdicts: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = self.status + (", partial" if self.partial else "")
        text += ", with a warning" if self.warned else ""
        if self.received:
            text += f": {' + '.join(sorted(self.received))}"
        if self.lacking:
            text += f", without {' and '.join(sorted(self.lacking))}"
        special = [verdict for verdict in self.verdicts if not verdict.endswith("matched")]
        return "; ".join([text, *special])


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitScenario(Scenario):
    """One correlation, from its registration to its end."""

    config: Mapping[str, Any]
    ends: WaitDemoOutcome
    events: tuple[ScriptedEvent, ...] = ()
    early: tuple[ScriptedEvent, ...] = ()

    @property
    def calls_api(self) -> bool:
        return bool(self.config["apiCall"]["enabled"])

    @property
    def publishes(self) -> bool:
        """Whether a completion event goes to a topic when the wait ends."""
        return bool(self.config.get("publishCompletion"))

    @property
    def rules(self) -> str:
        config, policy = self.config, self.config.get("onTimeout", "fail")
        return f"{config['aggregationStrategy']}, {config['timeout']:g} s, onTimeout {policy}"

    @property
    def expected(self) -> WaitDemoOutcome:
        order = [*self.early, *sorted(self.events, key=lambda event: event.at)]
        verdicts = tuple(verdict_text(one.via, one.verdict, one.reason) for one in order)
        return dataclasses.replace(self.ends, verdicts=verdicts)


def verdict_text(via: Via, verdict: Any, reason: Any) -> str:
    return f"{via} {verdict}" if verdict == "matched" else f"{via} {verdict} ({reason})"


# The run puts the address of the fake service here.
SERVICE_URL = "{service}/process"
_BOTH = frozenset({API, KAFKA})
_API, _KAFKA = frozenset({API}), frozenset({KAFKA})
_PAID: dict[str, Any] = {"status": "accepted", "reference": "R-1001"}
_SHIPPED: dict[str, Any] = {"event_type": "action.completed", "parcels": 2}
_SHORT_TIMEOUT = 1.2  # seconds


def _config(
    strategy: str,
    *,
    api: bool | None,
    kafka: bool | None,
    filter: Mapping[str, str] | None = None,
    timeout: float = 30,
    **more: Any,
) -> dict[str, Any]:
    """Build a `wait_events` data block; None disables an event, a bool says if it is required."""
    call = {"url": SERVICE_URL, "method": "POST", "required": api}
    event = {"topic": TOPIC, "required": kafka, **({"filter": filter} if filter else {})}
    return {
        "apiCall": {"enabled": api is not None, **(call if api is not None else {})},
        "kafkaEvent": {"enabled": kafka is not None, **(event if kafka is not None else {})},
        "aggregationStrategy": strategy,
        "timeout": timeout,
        **more,
    }


def _callback(at: float, **more: Any) -> ScriptedEvent:
    return ScriptedEvent(via=Via.CALLBACK, at=at, **{"data": _PAID, **more})


def _kafka(at: float, **more: Any) -> ScriptedEvent:
    return ScriptedEvent(via=Via.KAFKA, at=at, **{"data": _SHIPPED, **more})


_EXAMPLES = (
    WaitScenario(
        key="both-api-first",
        title="Example 1: wait for both, the callback comes first",
        description="Strategy all: neither event alone is enough.",
        config=_config("all", api=True, kafka=True),
        events=(_callback(0.5), _kafka(1.1)),
        ends=WaitDemoOutcome(received=_BOTH),
    ),
    WaitScenario(
        key="both-kafka-first",
        title="Example 1 again: the Kafka event comes first",
        description="The other order ends the same way.",
        config=_config("all", api=True, kafka=True),
        events=(_kafka(0.5), _callback(1.1)),
        ends=WaitDemoOutcome(received=_BOTH),
    ),
    WaitScenario(
        key="any",
        title="Example 2: whichever comes first, and one that is late",
        description="Strategy any: the Kafka event completes it; the callback is kept, as late.",
        config=_config("any", api=False, kafka=False),
        events=(_kafka(0.4), _callback(1.0, verdict="late", reason="wait_ended")),
        ends=WaitDemoOutcome(received=_KAFKA, lacking=_API),
    ),
    WaitScenario(
        key="api-only",
        title="Example 3: only the API call, answered twice",
        description="The service is not sure that we heard it and repeats itself: a duplicate.",
        config=_config("all", api=True, kafka=None),
        events=(
            _callback(0.4, sent_as="answer"),
            _callback(0.9, sent_as="answer", verdict="duplicate", reason="already_received"),
        ),
        ends=WaitDemoOutcome(received=_API),
    ),
    WaitScenario(
        key="kafka-only-early",
        title="Example 4: only the Kafka event, and it is early",
        description="The event is there before anybody waits. It is kept, and counts on "
        "registration.",
        config=_config("all", api=None, kafka=True),
        early=(_kafka(0.0, verdict="buffered", reason="no_wait_yet"),),
        ends=WaitDemoOutcome(received=_KAFKA),
    ),
    WaitScenario(
        key="custom",
        title="Example 5: custom, only the callback is needed",
        description="requiredEvents lists api_response: nobody waits for the Kafka event.",
        config=_config("custom", api=True, kafka=False, requiredEvents=[API]),
        events=(_callback(0.6),),
        ends=WaitDemoOutcome(received=_API, lacking=_KAFKA),
    ),
)

_TIMEOUTS = (
    WaitScenario(
        key="timeout-fail",
        title="Timeout policy: fail",
        description="The Kafka event never comes. The wait ends as timeout, the workflow stops.",
        config=_config("all", api=True, kafka=True, timeout=_SHORT_TIMEOUT, onTimeout="fail"),
        events=(_callback(0.3),),
        ends=WaitDemoOutcome(status="timeout", received=_API, lacking=_KAFKA),
    ),
    WaitScenario(
        key="timeout-continue",
        title="Timeout policy: continue",
        description="Every required event came; only the optional one is missing. The workflow "
        "goes on.",
        config=_config("all", api=True, kafka=False, timeout=_SHORT_TIMEOUT, onTimeout="continue"),
        events=(_callback(0.3),),
        ends=WaitDemoOutcome(received=_API, lacking=_KAFKA, partial=True),
    ),
    WaitScenario(
        key="timeout-partial",
        title="Timeout policy: continue_with_partial",
        description="A required event is missing. The workflow goes on all the same, with a "
        "warning.",
        config=_config(
            "all", api=True, kafka=True, timeout=_SHORT_TIMEOUT, onTimeout="continue_with_partial"
        ),
        events=(_callback(0.3),),
        ends=WaitDemoOutcome(
            status="completed", received=_API, lacking=_KAFKA, partial=True, warned=True
        ),
    ),
)

_SAFETY = (
    WaitScenario(
        key="contamination",
        title="An event of another execution",
        description="It carries our correlation id, but not our execution id. Both have to match.",
        config=_config("all", api=True, kafka=True),
        events=(
            _kafka(
                0.4,
                is_foreign=True,
                data={"event_type": "action.completed", "parcels": 999},
                verdict="rejected",
                reason="execution_mismatch",
            ),
            _callback(0.9),
            _kafka(1.3),
        ),
        ends=WaitDemoOutcome(received=_BOTH),
    ),
    WaitScenario(
        key="near-miss",
        title="An event that the filter refuses",
        description="action.started is not what we wait for. Nothing is dropped: explain knows it.",
        config=_config("all", api=None, kafka=True, filter={"event_type": "action.completed"}),
        events=(
            _kafka(
                0.4,
                data={"event_type": "action.started"},
                verdict="rejected",
                reason="filtered_out",
            ),
            _kafka(0.9),
        ),
        ends=WaitDemoOutcome(received=_KAFKA),
    ),
)

SCENARIOS: tuple[WaitScenario, ...] = (*_EXAMPLES, *_TIMEOUTS, *_SAFETY)

# Played where Muster has a broker.
BROKER_SCENARIOS = (
    WaitScenario(
        key="kafka-topic",
        title="By a real broker: a message in, a completion event out",
        description="The event is a message on the topic that the wait names; its end is "
        "published to another.",
        config=_config("all", api=True, kafka=True, timeout=60, publishCompletion=True),
        events=(_callback(0.4), ScriptedEvent(via=Via.TOPIC, at=0.8, data=_SHIPPED)),
        ends=WaitDemoOutcome(received=_BOTH),
    ),
)
