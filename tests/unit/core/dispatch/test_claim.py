import msgspec

from core.dispatch.claim import ClaimedJob, DeliveryProfile
from core.dispatch.job import Kind


def test_what_may_be_secret_is_not_printed() -> None:
    claimed = ClaimedJob(
        tenant=1,
        job_id="0ABC",
        send_no=2,
        attempt_count=1,
        max_retries=3,
        timeout_seconds=30,
        kind=Kind.TASK,
        code="task",
        target_url="http://127.0.0.1/",
        data_only=True,
        created_at=1.0,
        payload=b"hidden",
        headers={"X-Key": "hidden"},
        auth={"type": "bearer", "token": "hidden"},
    )
    profile = DeliveryProfile(
        secrets=(b"hidden",), headers={"X": "hidden"}, auth={"token": "hidden"}
    )
    assert repr(claimed) == "Claimed(1, '0ABC', send_no=2)"
    assert "hidden" not in repr(profile)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(claimed), type=ClaimedJob) == claimed
