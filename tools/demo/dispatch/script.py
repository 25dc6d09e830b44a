"""The scenarios of the dispatch demo: what happens to events on their way."""

import json
from collections.abc import Sequence

from cli.dispatch.subscriptions import PATH as SUBSCRIPTIONS
from cli.shell.parsing import join_path
from cli.shell.problems import ProblemResponseError
from tools.demo.dispatch.receiver import DemoDelivery
from tools.demo.dispatch.run import DispatchRun, busiest_second, order, order_text
from tools.demo.dispatch.setup import BILLED, MOVED, PLACED, RATE
from tools.demo.scenario import Script

_MANY = 20
_A_SECOND = RATE // 60
_RETRY_AFTER = 1
# The network adds some time: a delivery that was sent in time may arrive a little later.
_SLACK = 0.95
# Seconds by which a busy machine may receive the first of many later than it was sent.
_DELAY = 0.5
ONE, TWO, THREE = "customer-1", "customer-2", "customer-3"
SCENARIOS = Script[DispatchRun]()


@SCENARIOS.scenario(
    "fan-out",
    "One event, two subscribers",
    "Each gets it signed with its own secret: one the data alone, one an envelope.",
    "2 deliveries",
    "billing verified, the data to the byte",
    "audit verified, in an envelope",
)
async def _fan_out(run: DispatchRun) -> Sequence[str]:
    text = order_text(1, ONE)
    run.panel.note("sent", f"one event: {text}")
    reply = await run.send(PLACED, text)
    facts = [f"{reply['dispatchJobCount']} deliveries"]
    for name in ("billing", "audit"):
        one = await run.first_delivery(name)
        form = "the data to the byte" if one.body == text.encode() else "other data"
        form = "in an envelope" if one.is_enveloped and one.data == order(1, ONE) else form
        run.panel.note("taken", f"{name}: signature {_verified(one)}, {form}")
        facts.append(f"{name} {_verified(one)}, {form}")
    return facts


@SCENARIOS.scenario(
    "schema",
    "An event that its type does not allow",
    "It is refused before anybody gets it, and the answer names the field.",
    "refused for data.total",
    "0 deliveries",
)
async def _schema(run: DispatchRun) -> Sequence[str]:
    data = {**order(2, ONE), "total": "many"}
    run.panel.note("sent", json.dumps(data))
    try:
        await run.send(PLACED, json.dumps(data))
    except ProblemResponseError as problem:
        if problem.status != 422:
            raise
        run.panel.note("refused", f"{problem.status} {problem.sentence}")
        named = [str(fault.get("field")) for fault in problem.document.get("errors") or ()]
        return [f"refused for {', '.join(named)}", f"{len(run.deliveries)} deliveries"]
    return ["taken"]


@SCENARIOS.scenario(
    "duplicate",
    "The same event twice",
    "Sent again under the same id, it is still one event.",
    "new, 2 deliveries",
    "known, 0 deliveries",
    "2 arrived",
)
async def _duplicate(run: DispatchRun) -> Sequence[str]:
    facts: list[str] = []
    for _ in range(2):
        reply = await run.send(PLACED, order_text(3, ONE), deduplicationId=run.names.run_id)
        state = "known" if reply["duplicate"] else "new"
        facts.append(f"{state}, {reply['dispatchJobCount']} deliveries")
        run.panel.note("duplicate" if reply["duplicate"] else "sent", f"the event is {facts[-1]}")
    await run.wait_for_count(2)
    return [*facts, f"{len(run.deliveries)} arrived"]


@SCENARIOS.scenario(
    "order",
    "Two groups in order, one of them poisoned",
    "BLOCK_ON_ERROR (tracking) holds back its own group only; NEXT_ON_ERROR (mailing) goes on.",
    f"tracking {ONE}: 1 ✗2, 2 behind it",
    f"tracking {TWO}: 1 2 3 4",
    f"mailing {ONE}: 1 ✗2 3 4",
    f"mailing {TWO}: 1 2 3 4",
)
async def _order(run: DispatchRun) -> Sequence[str]:
    run.receiver.poison(ONE, 2)
    run.panel.note(
        "sent", "8 events in one request: 4 of each customer; 2 of customer-1 is refused"
    )
    await run.send_all(MOVED, [order(n, who) for n in range(1, 5) for who in (ONE, TWO)])
    waiting = await run.wait_until_blocked("tracking", ONE, behind=2)
    await run.wait_for_count(4 + 4 + 4 + 2)
    return [
        f"tracking {ONE}: {run.history('tracking', ONE)}, {waiting} behind it",
        f"tracking {TWO}: {run.history('tracking', TWO)}",
        f"mailing {ONE}: {run.history('mailing', ONE)}",
        f"mailing {TWO}: {run.history('mailing', TWO)}",
    ]


@SCENARIOS.scenario(
    "skip",
    "The poisoned one is skipped",
    "The group goes on without it, in order.",
    f"tracking {ONE}: 3 4",
)
async def _skip(run: DispatchRun) -> Sequence[str]:
    await run.change_group("tracking", ONE, "skip")
    await run.wait_for_count(2, "tracking")
    return [f"tracking {ONE}: {run.history('tracking', ONE)}"]


@SCENARIOS.scenario(
    "resume",
    "A receiver is repaired, and its group resumed",
    "What blocked the group is delivered again, and then what waited behind it.",
    f"tracking {THREE}: ✗1 1 2 3",
)
async def _resume(run: DispatchRun) -> Sequence[str]:
    run.receiver.poison(THREE, 1)
    run.panel.note("sent", "3 events of customer-3; the first is refused")
    await run.send_all(MOVED, [order(n, THREE) for n in (1, 2, 3)])
    await run.wait_until_blocked("tracking", THREE, behind=2)
    run.receiver.clear_poison()
    run.panel.note("sent", "the receiver is repaired")
    await run.change_group("tracking", THREE, "resume")
    await run.wait_for_count(4 + 3)
    return [f"tracking {THREE}: {run.history('tracking', THREE)}"]


@SCENARIOS.scenario(
    "busy",
    "A receiver that is busy",
    "429 with Retry-After: it is left alone for as long, and no attempt is spent.",
    "ledger: ◌1 1",
    "not before its time",
    "1 attempt spent",
)
async def _busy(run: DispatchRun) -> Sequence[str]:
    run.receiver.refuse_next("ledger", _RETRY_AFTER)
    run.panel.note("sent", f"one event; ledger says 429 with Retry-After: {_RETRY_AFTER}")
    reply = await run.send(BILLED, order_text(1, ONE))
    await run.wait_for_count(2, "ledger")
    first, second = run.deliveries_to("ledger")[:2]
    waited = second.at - first.at
    run.panel.note("taken", f"asked again after {waited:.2f} s")
    job = await run.job_of(reply["event"]["id"], "COMPLETED")
    in_time = waited >= _RETRY_AFTER * _SLACK
    return [
        f"ledger: {run.history('ledger', ONE)}",
        "not before its time" if in_time else f"after {waited:.2f} s",
        f"{job['attemptCount']} attempt spent",
    ]


@SCENARIOS.scenario(
    "rate",
    "A pool with a rate",
    "Twenty events come at once and leave evenly, a tenth of a second apart.",
    f"{_MANY} arrived",
    f"no faster than {_A_SECOND} a second",
)
async def _rate(run: DispatchRun) -> Sequence[str]:
    run.panel.note("sent", f"{_MANY} events at once, to a pool of {RATE} a minute")
    await run.send_all(BILLED, [order(n, TWO) for n in range(1, _MANY + 1)])
    await run.wait_for_count(_MANY, "ledger")
    moments = [delivery.at for delivery in run.deliveries_to("ledger")]
    span, most = max(moments) - min(moments), busiest_second(moments)
    run.panel.note("taken", f"all within {span:.2f} s, at most {most} in one second")
    in_limits = span >= (_MANY - 1) / _A_SECOND - _DELAY and most <= _A_SECOND + 1
    pace = f"no faster than {_A_SECOND} a second" if in_limits else f"{most} in one second"
    return [f"{len(moments)} arrived", pace]


@SCENARIOS.scenario(
    "rotation",
    "A new secret",
    "For an hour both sign, so that the receiver can change when it likes.",
    "verified by the old and the new secret",
)
async def _rotation(run: DispatchRun) -> Sequence[str]:
    (old,) = run.receiver.secrets["billing"]
    code = run.names.code_of("billing")
    run.panel.note("command", f"muster subscriptions rotate {code} --overlap 1h")
    rotated = await run.muster.post(
        join_path(SUBSCRIPTIONS, code, "secret", "rotate"), {"overlapSeconds": 3600}
    )
    new = str(rotated["secret"])
    run.receiver.secrets["billing"] = [old, new]
    await run.send(PLACED, order_text(4, ONE))
    one = await run.first_delivery("billing")
    await run.first_delivery("audit")
    names = [name for name, secret in (("old", old), ("new", new)) if secret in one.signed_by]
    verdict = f"verified by the {' and the '.join(names)} secret" if names else "not verified"
    run.panel.note("taken", f"billing: {verdict}")
    return [verdict]


def _verified(delivery: DemoDelivery) -> str:
    return "verified" if delivery.signed_by else "not verified"
