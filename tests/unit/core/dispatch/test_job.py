"""Jobs as pools know them: which group, which place, and how they travel."""

from core.dispatch.job import (
    QUEUE_STATE_OF,
    GroupKey,
    JobKey,
    JobRef,
    JobStatus,
    Mode,
    QueueState,
    decode_job_refs,
    encode_job_refs,
    group_name,
)

PLAIN = JobRef(tenant=1, job_id="a", position=7, target="http://a")
GROUPED = JobRef(
    tenant=2,
    job_id="b",
    position=8,
    target="http://b",
    mode=Mode.BLOCK_ON_ERROR,
    group="g",
    sequence=5,
    due=12.5,
    retrying=True,
    stuck=True,
)


def test_pointers_come_back_as_they_were_sent() -> None:
    assert decode_job_refs(encode_job_refs([PLAIN, GROUPED])) == [PLAIN, GROUPED]


def test_a_job_keeps_the_order_of_a_group_only_if_it_minds_one() -> None:
    loose = JobRef(tenant=1, job_id="c", position=9, target="http://a", group="g")
    assert (PLAIN.group_key, loose.group_key) == (None, None)
    assert GROUPED.group_key == GroupKey(2, "g")
    assert GROUPED.key == JobKey(2, "b")
    assert GROUPED.place == (5, 8)


def test_a_group_is_named_by_its_subscription_and_its_event() -> None:
    assert group_name("orders", "order:1") == "orders:order:1"
    assert group_name("orders", None) == "orders"


def test_every_status_has_its_standing() -> None:
    assert set(QUEUE_STATE_OF) == set(JobStatus)
    assert set(QUEUE_STATE_OF.values()) == set(QueueState)
