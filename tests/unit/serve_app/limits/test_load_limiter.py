import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.shared.errors import OverloadedError
from serve_app.limits.load_limiter import Gate, Passage
from settings.ingress import IngressOptions

OPTIONS = IngressOptions(request_limit=6, stream_limit=4, body_budget=200, answer_budget=200)
ACME, UMBRELLA, GLOBEX = 1, 2, 3


def claimed(gate: Gate, tenant: int, count: int = 1) -> list[Passage]:
    passages = [gate.enter() for _ in range(count)]
    for passage in passages:
        passage.claim(tenant)
    return passages


def test_a_tenant_has_half_of_the_requests_and_the_other_half_is_for_others() -> None:
    gate = Gate(OPTIONS)
    held = claimed(gate, ACME, 3)
    one_more = gate.enter()
    with pytest.raises(OverloadedError, match=r"your tenant has half .* \(MUSTER_REQUEST_LIMIT\)"):
        one_more.claim(ACME)
    one_more.leave()
    others = claimed(gate, UMBRELLA, 3)
    with pytest.raises(OverloadedError, match=r"enough requests under way .MUSTER_REQUEST_LIMIT"):
        gate.enter()
    held[0].leave()
    claimed(gate, GLOBEX)[0].leave()
    for passage in [*held[1:], *others]:
        passage.leave()
    assert (gate.requests, gate.tenants) == (0, 0)


def test_those_without_a_key_have_half_of_the_requests() -> None:
    gate = Gate(OPTIONS)
    for _ in range(3):
        gate.enter()
    with pytest.raises(OverloadedError, match=r"requests without a key have half"):
        gate.enter()
    assert gate.requests == 3


def test_a_tenant_has_half_of_the_streams() -> None:
    gate = Gate(OPTIONS)
    for passage in claimed(gate, ACME, 2):
        passage.linger()
    late = claimed(gate, ACME)[0]
    with pytest.raises(OverloadedError, match=r"your tenant has half .* \(MUSTER_STREAM_LIMIT\)"):
        late.linger()
    late.leave()
    for passage in claimed(gate, UMBRELLA, 2):
        passage.linger()
    with pytest.raises(OverloadedError, match=r"enough streams open"):
        claimed(gate, GLOBEX)[0].linger()


def test_a_tenant_has_half_of_the_bodies_by_what_has_come() -> None:
    gate = Gate(OPTIONS)
    acme, umbrella = (claimed(gate, tenant)[0] for tenant in (ACME, UMBRELLA))
    acme.hold(100)
    with pytest.raises(OverloadedError, match=r"your tenant has half .* \(MUSTER_BODY_BUDGET\)"):
        acme.hold(1)
    umbrella.hold(100)
    with pytest.raises(OverloadedError, match=r"enough request bodies"):
        claimed(gate, GLOBEX)[0].hold(1)
    acme.leave()
    umbrella.leave()
    assert gate.body_bytes == 0


def test_a_tenant_has_half_of_the_answers_that_are_not_read() -> None:
    gate = Gate(OPTIONS)
    held = [*claimed(gate, ACME), *claimed(gate, UMBRELLA)]
    for passage in held:
        passage.hold_answer(100)
    more = claimed(gate, ACME)[0]
    with pytest.raises(OverloadedError, match=r"enough answers in memory"):
        more.hold_answer(1)
    held[1].leave()
    with pytest.raises(OverloadedError, match=r"your tenant has half .* \(MUSTER_ANSWER_BUDGET\)"):
        more.hold_answer(1)
    more.hold_answer(1, always=True)
    held[0].leave()
    more.leave()
    assert (gate.answer_bytes, gate.tenants) == (0, 0)


def test_one_answer_passes_however_large_it_is() -> None:
    gate = Gate(OPTIONS)
    alone = claimed(gate, ACME)[0]
    alone.hold_answer(1_000)
    with pytest.raises(OverloadedError):
        claimed(gate, UMBRELLA)[0].hold_answer(1)
    gate.enter(urgent=True).hold_answer(70)  # who looks after the replica
    alone.leave()
    claimed(gate, UMBRELLA)[0].hold_answer(130)


def test_bytes_that_came_before_the_key_was_known_become_the_tenants() -> None:
    gate = Gate(OPTIONS)
    claimed(gate, ACME)[0].hold(60)
    early = gate.enter()
    early.hold(60)
    with pytest.raises(OverloadedError, match=r"MUSTER_BODY_BUDGET"):
        early.claim(ACME)
    early.claim(UMBRELLA)
    nobody = gate.enter()
    nobody.hold(80)
    assert gate.body_bytes == 200


def test_who_looks_after_the_replica_takes_nothing_of_a_tenants_share() -> None:
    gate = Gate(OPTIONS)
    looking = gate.enter(urgent=True)
    looking.claim(ACME)
    held = claimed(gate, ACME, 3)
    for passage in [looking, *held]:
        passage.leave()
    assert (gate.requests, gate.urgent, gate.tenants) == (0, 0, 0)


def test_a_stream_of_nobody_stays_that() -> None:
    gate = Gate(OPTIONS)
    stream = gate.enter()
    stream.linger()
    stream.claim(ACME)
    assert gate.tenants == 0
    stream.leave()
    assert (gate.requests, gate.streams) == (0, 0)


STEPS = ["enter", "look", "claim 1", "claim 2", "linger", "hold", "answer", "leave"]


@given(st.lists(st.sampled_from(STEPS), max_size=60))
def test_whatever_happens_the_gate_ends_up_empty(steps: list[str]) -> None:
    gate, inside = Gate(OPTIONS), list[Passage]()
    for step in steps:
        try:
            if step in {"enter", "look"}:
                inside.append(gate.enter(urgent=step == "look"))
            elif inside:
                _act(step, inside)
        except OverloadedError:
            continue
        assert gate.streams <= OPTIONS.stream_limit
        assert gate.body_bytes <= OPTIONS.body_budget
    for passage in inside:
        passage.leave()
    assert (gate.requests, gate.urgent, gate.streams, gate.body_bytes) == (0, 0, 0, 0)
    assert (gate.answer_bytes, gate.tenants) == (0, 0)
    # All of both halves can be had again.
    for tenant in (ACME, UMBRELLA):
        for passage in claimed(gate, tenant, 3):
            passage.hold(33)


def _act(step: str, inside: list[Passage]) -> None:
    if step == "linger":
        inside[-1].linger()
    elif step == "hold":
        inside[-1].hold(40)
    elif step == "answer":
        inside[-1].hold_answer(90)
    elif step == "leave":
        inside.pop().leave()
    else:
        inside[-1].claim(int(step.split()[1]))
