"""The scenarios of the wait demo: five configurations, three timeout policies, two safety rules."""

from typing import Any

from tools.demo.waits.scenario import (
    API,
    KAFKA,
    TOPIC,
    ScriptedEvent,
    Via,
    WaitDemoOutcome,
    WaitScenario,
)

# The run puts the address of the fake service here.
SERVICE_URL = "{service}/process"
_BOTH = frozenset({API, KAFKA})
_API, _KAFKA = frozenset({API}), frozenset({KAFKA})
_PAID: dict[str, Any] = {"status": "accepted", "reference": "R-1001"}
_SHIPPED: dict[str, Any] = {"event_type": "action.completed", "parcels": 2}
_SHORT_TIMEOUT = 1.2  # seconds


def _config(
    strategy: str, *, api: bool | None, kafka: bool | None, timeout: float = 30, **more: Any
) -> dict[str, Any]:
    """Build a `wait_events` data block; None disables an event, a bool says if it is required."""
    call: dict[str, Any] = {"enabled": False}
    event: dict[str, Any] = {"enabled": False}
    if api is not None:
        call = {"enabled": True, "url": SERVICE_URL, "method": "POST", "required": api}
    if kafka is not None:
        event = {"enabled": True, "topic": TOPIC, "required": kafka}
    return {
        "apiCall": call,
        "kafkaEvent": event,
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
        ends=WaitDemoOutcome(status="completed", received=_BOTH),
    ),
    WaitScenario(
        key="both-kafka-first",
        title="Example 1 again: the Kafka event comes first",
        description="The other order ends the same way.",
        config=_config("all", api=True, kafka=True),
        events=(_kafka(0.5), _callback(1.1)),
        ends=WaitDemoOutcome(status="completed", received=_BOTH),
    ),
    WaitScenario(
        key="any",
        title="Example 2: whichever comes first, and one that is late",
        description="Strategy any: the Kafka event completes it; the callback is kept, as late.",
        config=_config("any", api=False, kafka=False),
        events=(_kafka(0.4), _callback(1.0, verdict="late", reason="wait_ended")),
        ends=WaitDemoOutcome(status="completed", received=_KAFKA, lacking=_API),
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
        ends=WaitDemoOutcome(status="completed", received=_API),
    ),
    WaitScenario(
        key="kafka-only-early",
        title="Example 4: only the Kafka event, and it is early",
        description="The event is there before anybody waits. It is kept, and counts on "
        "registration.",
        config=_config("all", api=None, kafka=True),
        early=(_kafka(0.0, verdict="buffered", reason="no_wait_yet"),),
        ends=WaitDemoOutcome(status="completed", received=_KAFKA),
    ),
    WaitScenario(
        key="custom",
        title="Example 5: custom, only the callback is needed",
        description="requiredEvents lists api_response: nobody waits for the Kafka event.",
        config=_config("custom", api=True, kafka=False, requiredEvents=[API]),
        events=(_callback(0.6),),
        ends=WaitDemoOutcome(status="completed", received=_API, lacking=_KAFKA),
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
        ends=WaitDemoOutcome(status="completed", received=_API, lacking=_KAFKA, partial=True),
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
        ends=WaitDemoOutcome(status="completed", received=_BOTH),
    ),
    WaitScenario(
        key="near-miss",
        title="An event that the filter refuses",
        description="action.started is not what we wait for. Nothing is dropped: explain knows it.",
        config=_config("all", api=None, kafka=True)
        | {
            "kafkaEvent": {
                "enabled": True,
                "topic": TOPIC,
                "filter": {"event_type": "action.completed"},
            }
        },
        events=(
            _kafka(
                0.4,
                data={"event_type": "action.started"},
                verdict="rejected",
                reason="filtered_out",
            ),
            _kafka(0.9),
        ),
        ends=WaitDemoOutcome(status="completed", received=_KAFKA),
    ),
)

SCENARIOS: tuple[WaitScenario, ...] = (*_EXAMPLES, *_TIMEOUTS, *_SAFETY)

# Played where Muster has a broker.
BROKER_SCENARIOS = (
    WaitScenario(
        key="kafka-topic",
        title="By a real broker: a record in, a completion event out",
        description="The event is a record on the topic that the wait names; its end is told to "
        "another.",
        config=_config("all", api=True, kafka=True, timeout=60, publishCompletion=True),
        events=(_callback(0.4), ScriptedEvent(via=Via.TOPIC, at=0.8, data=_SHIPPED)),
        ends=WaitDemoOutcome(status="completed", received=_BOTH),
    ),
)
