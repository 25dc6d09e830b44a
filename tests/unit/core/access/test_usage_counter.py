"""What is counted is told once, and not lost if it cannot be told."""

from core.access.usage_counter import ROW_BYTES, UsageCounter
from core.shared.quotas import StoredKind

INBOX, EVENTS = StoredKind.INBOX, StoredKind.EVENTS


def test_rows_and_bytes_add_up_by_tenant_and_kind() -> None:
    counter = UsageCounter()
    counter.add(1, INBOX, 2, 100)
    counter.add(1, INBOX, 1, 10)
    counter.add(2, EVENTS, 1, 0)
    counter.add(1, INBOX, -1, -50)
    assert counter.take(10) == {
        (1, INBOX): (2, 60 + 2 * ROW_BYTES[INBOX]),
        (2, EVENTS): (1, ROW_BYTES[EVENTS]),
    }
    assert counter.take(10) == {}


def test_only_so_many_are_told_at_once() -> None:
    counter = UsageCounter()
    for tenant in range(5):
        counter.add(tenant, INBOX, 1, 0)
    assert len(counter.take(3)) == 3
    assert len(counter.take(3)) == 2


def test_what_could_not_be_told_is_told_later() -> None:
    counter = UsageCounter()
    counter.add(1, INBOX, 1, 100)
    taken = counter.take(10)
    counter.add(1, INBOX, 1, 1)
    counter.put_back(taken)
    counter.put_back({(3, EVENTS): (1, 7)})
    assert counter.take(10) == {
        (1, INBOX): (2, 101 + 2 * ROW_BYTES[INBOX]),
        (3, EVENTS): (1, 7),
    }


def test_every_kind_has_a_weight() -> None:
    assert set(ROW_BYTES) == set(StoredKind)
