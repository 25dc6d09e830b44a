"""The story: what becomes of events on their way, when all is well and when it is not."""

import json
from collections.abc import Sequence

from cli.dispatch.parsing import join_path
from cli.dispatch.subscriptions import PATH as SUBSCRIPTIONS
from cli.shell.problems import ProblemResponseError
from tools.demo.dispatch.cast import BILLED, MOVED, PLACED, RATE
from tools.demo.dispatch.receiver import DemoDelivery
from tools.demo.dispatch.scene import DispatchScenario, busiest_second
from tools.demo.dispatch.stage import DispatchScenarioRun, order, order_text

_MANY = 20
_A_SECOND = RATE // 60
_RETRY_AFTER = 1
# What a network adds: a delivery that was sent in time may be seen a little later.
_SLACK = 0.95
ONE, TWO, THREE = "customer-1", "customer-2", "customer-3"


async def _fan_out(act: DispatchScenarioRun) -> Sequence[str]:
    text = order_text(1, ONE)
    act.view.note("sent", f"one event: {text}")
    reply = await act.send(PLACED, text)
    facts = [f"{reply['dispatchJobCount']} deliveries"]
    for name in ("billing", "audit"):
        one = await act.first(name)
        form = "the data to the byte" if one.body == text.encode() else "other data"
        form = "in an envelope" if one.is_enveloped and one.data == order(1, ONE) else form
        act.view.note("taken", f"{name}: signature {_verified(one)}, {form}")
        facts.append(f"{name} {_verified(one)}, {form}")
    return facts


async def _schema(act: DispatchScenarioRun) -> Sequence[str]:
    data = {**order(2, ONE), "total": "many"}
    act.view.note("sent", json.dumps(data))
    try:
        await act.send(PLACED, json.dumps(data))
    except ProblemResponseError as problem:
        if problem.status != 422:
            raise
        act.view.note("refused", f"{problem.status} {problem.sentence}")
        named = [str(fault.get("field")) for fault in problem.document.get("errors") or ()]
        return [f"refused for {', '.join(named)}", f"{len(act.deliveries)} deliveries"]
    return ["taken"]


async def _duplicate(act: DispatchScenarioRun) -> Sequence[str]:
    facts: list[str] = []
    for _ in range(2):
        reply = await act.send(PLACED, order_text(3, ONE), deduplicationId=act.cast.run_id)
        told = "known" if reply["duplicate"] else "new"
        facts.append(f"{told}, {reply['dispatchJobCount']} deliveries")
        act.view.note("known" if reply["duplicate"] else "sent", f"the event is {facts[-1]}")
    await act.count(2)
    return [*facts, f"{len(act.deliveries)} arrived"]


async def _order(act: DispatchScenarioRun) -> Sequence[str]:
    act.receiver.poison(ONE, 2)
    act.view.note("sent", "8 events in one request: 4 of each customer; 2 of customer-1 is refused")
    await act.send_all(MOVED, [order(n, who) for n in range(1, 5) for who in (ONE, TWO)])
    held = await act.blocked("tracking", ONE, behind=2)
    act.view.note("blocked", f"tracking {ONE} is blocked, with {held} behind")
    await act.count(4 + 4 + 4 + 2)
    return [
        f"tracking {ONE}: {act.group_history('tracking', ONE)}, {held} held back",
        f"tracking {TWO}: {act.group_history('tracking', TWO)}",
        f"mailing {ONE}: {act.group_history('mailing', ONE)}",
        f"mailing {TWO}: {act.group_history('mailing', TWO)}",
    ]


async def _skip(act: DispatchScenarioRun) -> Sequence[str]:
    await act.change_group("tracking", ONE, "skip")
    await act.count(2, "tracking")
    return [f"tracking {ONE}: {act.group_history('tracking', ONE)}"]


async def _resume(act: DispatchScenarioRun) -> Sequence[str]:
    act.receiver.poison(THREE, 1)
    act.view.note("sent", "3 events of customer-3; the first is refused")
    await act.send_all(MOVED, [order(n, THREE) for n in (1, 2, 3)])
    held = await act.blocked("tracking", THREE, behind=2)
    act.view.note("blocked", f"tracking {THREE} is blocked, with {held} behind")
    act.receiver.clear_poison()
    act.view.note("muster", "the receiver is mended")
    await act.change_group("tracking", THREE, "resume")
    await act.count(4 + 3)
    return [f"tracking {THREE}: {act.group_history('tracking', THREE)}"]


async def _busy(act: DispatchScenarioRun) -> Sequence[str]:
    act.receiver.refuse_next("ledger", _RETRY_AFTER)
    act.view.note("sent", f"one event; ledger says 429 with Retry-After: {_RETRY_AFTER}")
    reply = await act.send(BILLED, order_text(1, ONE))
    await act.count(2, "ledger")
    first, second = act.of("ledger")[:2]
    waited = second.at - first.at
    act.view.note("taken", f"asked again after {waited:.2f} s")
    job = await act.job_of(reply["event"]["id"], "COMPLETED")
    in_time = waited >= _RETRY_AFTER * _SLACK
    return [
        f"ledger: {act.group_history('ledger', ONE)}",
        "not before its time" if in_time else f"after {waited:.2f} s",
        f"{job['attemptCount']} attempt spent",
    ]


async def _rate(act: DispatchScenarioRun) -> Sequence[str]:
    act.view.note("sent", f"{_MANY} events at once, to a pool of {RATE} a minute")
    await act.send_all(BILLED, [order(n, TWO) for n in range(1, _MANY + 1)])
    await act.count(_MANY, "ledger")
    moments = [delivery.at for delivery in act.of("ledger")]
    span, most = max(moments) - min(moments), busiest_second(moments)
    act.view.note("taken", f"all within {span:.2f} s, at most {most} in one second")
    kept = span >= (_MANY - 1) / _A_SECOND * _SLACK and most <= _A_SECOND + 1
    pace = f"no faster than {_A_SECOND} a second" if kept else f"{most} in one second"
    return [f"{len(moments)} arrived", pace]


async def _rotation(act: DispatchScenarioRun) -> Sequence[str]:
    (old,) = act.receiver.secrets["billing"]
    code = act.cast.code_of("billing")
    act.view.note("muster", f"muster subscriptions rotate {code} --overlap 1h")
    rotated = await act.muster.post(
        join_path(SUBSCRIPTIONS, code, "secret", "rotate"), {"overlapSeconds": 3600}
    )
    new = str(rotated["secret"])
    act.receiver.secrets["billing"] = [old, new]
    await act.send(PLACED, order_text(4, ONE))
    one = await act.first("billing")
    await act.first("audit")
    names = [name for name, secret in (("old", old), ("new", new)) if secret in one.signed_by]
    told = f"verified by the {' and the '.join(names)} secret" if names else "not verified"
    act.view.note("taken", f"billing: {told}")
    return [told]


def _verified(delivery: DemoDelivery) -> str:
    return "verified" if delivery.signed_by else "not verified"


SCENARIOS = (
    DispatchScenario(
        key="fan-out",
        title="One event, two subscribers",
        description="Each gets it signed with its own secret: one the data alone, one an envelope.",
        facts=(
            "2 deliveries",
            "billing verified, the data to the byte",
            "audit verified, in an envelope",
        ),
        play=_fan_out,
    ),
    DispatchScenario(
        key="schema",
        title="An event that its type does not allow",
        description="It is refused before anybody gets it, and the answer names the place.",
        facts=("refused for data.total", "0 deliveries"),
        play=_schema,
    ),
    DispatchScenario(
        key="duplicate",
        title="The same event twice",
        description="Sent again under the same id, it is still one event.",
        facts=("new, 2 deliveries", "known, 0 deliveries", "2 arrived"),
        play=_duplicate,
    ),
    DispatchScenario(
        key="order",
        title="Two groups in order, one of them poisoned",
        description="BLOCK_ON_ERROR (tracking) holds back its own group only; NEXT_ON_ERROR "
        "(mailing) goes on.",
        facts=(
            f"tracking {ONE}: 1 ✗2, 2 held back",
            f"tracking {TWO}: 1 2 3 4",
            f"mailing {ONE}: 1 ✗2 3 4",
            f"mailing {TWO}: 1 2 3 4",
        ),
        play=_order,
    ),
    DispatchScenario(
        key="skip",
        title="The poisoned one is skipped",
        description="The group goes on without it, in order.",
        facts=(f"tracking {ONE}: 3 4",),
        play=_skip,
    ),
    DispatchScenario(
        key="resume",
        title="A receiver is mended, and its group resumed",
        description="What blocked the group is delivered again, and then what waited behind it.",
        facts=(f"tracking {THREE}: ✗1 1 2 3",),
        play=_resume,
    ),
    DispatchScenario(
        key="busy",
        title="A receiver that is busy",
        description="429 with Retry-After: it is left alone for as long, and no attempt is spent.",
        facts=("ledger: ◌1 1", "not before its time", "1 attempt spent"),
        play=_busy,
    ),
    DispatchScenario(
        key="rate",
        title="A pool with a rate",
        description="Twenty events come at once and leave evenly, a tenth of a second apart.",
        facts=(f"{_MANY} arrived", f"no faster than {_A_SECOND} a second"),
        play=_rate,
    ),
    DispatchScenario(
        key="rotation",
        title="A new secret",
        description="For an hour both sign, so that the receiver can change when it likes.",
        facts=("verified by the old and the new secret",),
        play=_rotation,
    ),
)
