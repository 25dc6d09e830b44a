from dataclasses import replace

import msgspec

from core.dispatch.event_job import job_of
from core.dispatch.job import ANCHOR, GroupKey, JobKey, Mode
from core.dispatch.subscription import Subscription
from core.events.event import Event

EVENT = Event(
    tenant=7,
    event_id="e",
    type="order.created",
    source="shop",
    time=1.0,
    subject="order:1",
    correlation_id="c",
    message_group="order:1",
)
SUBSCRIPTION = Subscription(
    tenant=ANCHOR,
    subscription_id="s",
    code="orders",
    name="Orders",
    target="https://x.example/hook",
    pool_no=3,
    pool_code="slow",
    bindings=(),
    mode=Mode.BLOCK_ON_ERROR,
    timeout_seconds=5,
    max_age_seconds=6,
    delay_seconds=7,
    max_retries=8,
    sequence=9,
    data_only=False,
)


def test_a_job_is_its_subscriptions_and_brings_an_event_that_may_be_another_tenants() -> None:
    job = job_of(EVENT, SUBSCRIPTION, "j")
    assert job.key == JobKey(ANCHOR, "j")
    assert (job.event_tenant, job.event_id, job.subscription_id) == (7, "e", "s")
    assert (job.code, job.source, job.subject) == ("order.created", "shop", "order:1")
    assert (job.correlation_id, job.target_url, job.pool_no) == ("c", SUBSCRIPTION.target, 3)
    assert (job.mode, job.sequence, job.max_retries) == (Mode.BLOCK_ON_ERROR, 9, 8)
    assert (job.timeout_seconds, job.data_only) == (5, False)
    assert (job.delay_seconds, job.max_age_seconds) == (7, 6)


def test_a_job_is_about_the_client_that_its_event_names() -> None:
    assert job_of(EVENT, SUBSCRIPTION, "j").client_id is None
    named = msgspec.structs.replace(EVENT, context=(("region", "eu"), ("clientId", "acme")))
    assert named.client == "acme"
    assert job_of(named, SUBSCRIPTION, "j").client_id == "acme"


def test_a_pool_is_told_where_a_job_stands() -> None:
    job_ref = job_of(EVENT, SUBSCRIPTION, "j").job_ref(42, 1.5)
    assert job_ref.key == JobKey(ANCHOR, "j")
    assert job_ref.group_key == GroupKey(ANCHOR, "orders@7:order:1")
    assert job_ref.place == (9, 42)
    assert (job_ref.target, job_ref.due) == (SUBSCRIPTION.target, 1.5)
    assert (job_ref.retrying, job_ref.stuck) == (False, False)


def test_one_tenants_trouble_at_the_anchor_is_not_anothers() -> None:
    groups = {
        job_of(
            msgspec.structs.replace(EVENT, tenant=tenant, message_group=group), SUBSCRIPTION, "j"
        ).message_group
        for tenant in (7, 8)
        for group in (None, "order:1")
    }
    assert groups == {"orders@7", "orders@8", "orders@7:order:1", "orders@8:order:1"}
    own = replace(SUBSCRIPTION, tenant=7)
    assert job_of(EVENT, own, "j").message_group == "orders:order:1"
