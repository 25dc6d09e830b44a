import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.shared.errors import OverloadedError
from serve_app.limits.load_limiter import LoadLimiter, RequestSlot
from settings.ingress import IngressOptions

OPTIONS = IngressOptions(request_limit=6, stream_limit=4, body_budget=200, answer_budget=200)
ACME, UMBRELLA, GLOBEX = 1, 2, 3


def claimed(gate: LoadLimiter, tenant: int, count: int = 1) -> list[RequestSlot]:
    passages = [gate.admit() for _ in range(count)]
    for passage in passages:
        passage.assign_tenant(tenant)
    return passages


def test_a_tenant_has_half_of_the_requests_and_the_other_half_is_for_others() -> None:
    gate = LoadLimiter(OPTIONS)
    held = claimed(gate, ACME, 3)
    one_more = gate.admit()
    with pytest.raises(OverloadedError, match=r"your tenant has half .* \(MUSTER_REQUEST_LIMIT\)"):
        one_more.assign_tenant(ACME)
    one_more.release()
    others = claimed(gate, UMBRELLA, 3)
    with pytest.raises(OverloadedError, match=r"enough requests under way .MUSTER_REQUEST_LIMIT"):
        gate.admit()
    held[0].release()
    claimed(gate, GLOBEX)[0].release()
    for passage in [*held[1:], *others]:
        passage.release()
    assert (gate.requests, gate.tenants) == (0, 0)


def test_those_without_a_key_have_half_of_the_requests() -> None:
    gate = LoadLimiter(OPTIONS)
    for _ in range(3):
        gate.admit()
    with pytest.raises(OverloadedError, match=r"requests without a key have half"):
        gate.admit()
    assert gate.requests == 3


def test_a_tenant_has_half_of_the_streams() -> None:
    gate = LoadLimiter(OPTIONS)
    for passage in claimed(gate, ACME, 2):
        passage.count_as_stream()
    late = claimed(gate, ACME)[0]
    with pytest.raises(OverloadedError, match=r"your tenant has half .* \(MUSTER_STREAM_LIMIT\)"):
        late.count_as_stream()
    late.release()
    for passage in claimed(gate, UMBRELLA, 2):
        passage.count_as_stream()
    with pytest.raises(OverloadedError, match=r"enough streams open"):
        claimed(gate, GLOBEX)[0].count_as_stream()


def test_a_tenant_has_half_of_the_bodies_by_what_has_come() -> None:
    gate = LoadLimiter(OPTIONS)
    acme, umbrella = (claimed(gate, tenant)[0] for tenant in (ACME, UMBRELLA))
    acme.reserve_body(100)
    with pytest.raises(OverloadedError, match=r"your tenant has half .* \(MUSTER_BODY_BUDGET\)"):
        acme.reserve_body(1)
    umbrella.reserve_body(100)
    with pytest.raises(OverloadedError, match=r"enough request bodies"):
        claimed(gate, GLOBEX)[0].reserve_body(1)
    acme.release()
    umbrella.release()
    assert gate.body_bytes == 0


def test_a_tenant_has_half_of_the_answers_that_are_not_read() -> None:
    gate = LoadLimiter(OPTIONS)
    held = [*claimed(gate, ACME), *claimed(gate, UMBRELLA)]
    for passage in held:
        passage.reserve_response(100)
    more = claimed(gate, ACME)[0]
    with pytest.raises(OverloadedError, match=r"enough answers in memory"):
        more.reserve_response(1)
    held[1].release()
    with pytest.raises(OverloadedError, match=r"your tenant has half .* \(MUSTER_ANSWER_BUDGET\)"):
        more.reserve_response(1)
    more.reserve_response(1, always=True)
    held[0].release()
    more.release()
    assert (gate.answer_bytes, gate.tenants) == (0, 0)


def test_one_answer_passes_however_large_it_is() -> None:
    gate = LoadLimiter(OPTIONS)
    alone = claimed(gate, ACME)[0]
    alone.reserve_response(1_000)
    with pytest.raises(OverloadedError):
        claimed(gate, UMBRELLA)[0].reserve_response(1)
    gate.admit(urgent=True).reserve_response(70)  # who looks after the replica
    alone.release()
    claimed(gate, UMBRELLA)[0].reserve_response(130)


def test_bytes_that_came_before_the_key_was_known_become_the_tenants() -> None:
    gate = LoadLimiter(OPTIONS)
    claimed(gate, ACME)[0].reserve_body(60)
    early = gate.admit()
    early.reserve_body(60)
    with pytest.raises(OverloadedError, match=r"MUSTER_BODY_BUDGET"):
        early.assign_tenant(ACME)
    early.assign_tenant(UMBRELLA)
    nobody = gate.admit()
    nobody.reserve_body(80)
    assert gate.body_bytes == 200


def test_who_looks_after_the_replica_takes_nothing_of_a_tenants_share() -> None:
    gate = LoadLimiter(OPTIONS)
    looking = gate.admit(urgent=True)
    looking.assign_tenant(ACME)
    held = claimed(gate, ACME, 3)
    for passage in [looking, *held]:
        passage.release()
    assert (gate.requests, gate.urgent, gate.tenants) == (0, 0, 0)


def test_a_stream_of_nobody_stays_that() -> None:
    gate = LoadLimiter(OPTIONS)
    stream = gate.admit()
    stream.count_as_stream()
    stream.assign_tenant(ACME)
    assert gate.tenants == 0
    stream.release()
    assert (gate.requests, gate.streams) == (0, 0)


STEPS = ["enter", "look", "claim 1", "claim 2", "linger", "hold", "answer", "leave"]


@given(st.lists(st.sampled_from(STEPS), max_size=60))
def test_whatever_happens_the_gate_ends_up_empty(steps: list[str]) -> None:
    gate, inside = LoadLimiter(OPTIONS), list[RequestSlot]()
    for step in steps:
        try:
            if step in {"enter", "look"}:
                inside.append(gate.admit(urgent=step == "look"))
            elif inside:
                _act(step, inside)
        except OverloadedError:
            continue
        assert gate.streams <= OPTIONS.stream_limit
        assert gate.body_bytes <= OPTIONS.body_budget
    for passage in inside:
        passage.release()
    assert (gate.requests, gate.urgent, gate.streams, gate.body_bytes) == (0, 0, 0, 0)
    assert (gate.answer_bytes, gate.tenants) == (0, 0)
    # All of both halves can be had again.
    for tenant in (ACME, UMBRELLA):
        for passage in claimed(gate, tenant, 3):
            passage.reserve_body(33)


def _act(step: str, inside: list[RequestSlot]) -> None:
    if step == "linger":
        inside[-1].count_as_stream()
    elif step == "hold":
        inside[-1].reserve_body(40)
    elif step == "answer":
        inside[-1].reserve_response(90)
    elif step == "leave":
        inside.pop().release()
    else:
        inside[-1].assign_tenant(int(step.split()[1]))
