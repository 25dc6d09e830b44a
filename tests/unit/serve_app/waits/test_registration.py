import uuid
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.waits.spec import decode_spec
from serve_app.waits.registration import plan_registration
from serve_app.waits.request_models import WaitRequest


def request(**fields: Any) -> WaitRequest:
    return WaitRequest.model_validate({"data": {"apiCall": {"url": "u"}}, **fields})


def test_ids_that_nobody_gave_are_made_up_and_new() -> None:
    one, other = (plan_registration(7, request()) for _ in range(2))
    assert one.fresh
    assert one.address != other.address
    uuid.UUID(one.address.execution_id)
    uuid.UUID(one.address.correlation_id)
    assert one.node_id == "wait"


def test_a_repeated_registration_gets_the_same_correlation() -> None:
    one, other = (plan_registration(7, request(executionId="run")) for _ in range(2))
    assert one.address == other.address
    assert not one.fresh


def test_two_nodes_of_an_execution_are_two_correlations() -> None:
    one = plan_registration(7, request(executionId="run"))
    other = plan_registration(7, request(executionId="run", nodeId="second"))
    assert one.address.correlation_id != other.address.correlation_id


def test_tenants_do_not_share_made_up_ids() -> None:
    one, other = (plan_registration(tenant, request(executionId="run")) for tenant in (7, 8))
    assert one.address.correlation_id != other.address.correlation_id


@given(st.sampled_from(["order", "17"]), st.none() | st.just("run"))
def test_an_id_that_was_given_is_kept(correlation: str, execution: str | None) -> None:
    plan = plan_registration(7, request(correlationId=correlation, executionId=execution))
    assert plan.address.correlation_id == correlation
    assert not plan.fresh
    if execution is not None:
        assert plan.address.execution_id == execution


def test_the_message_says_what_was_planned() -> None:
    plan = plan_registration(7, request(executionId="run", nodeId="n"))
    first, second = plan.message(), plan.message()
    assert (first.address, first.node_id) == (plan.address, "n")
    assert decode_spec(first.spec) == plan.spec
    assert first.turn_id != second.turn_id
