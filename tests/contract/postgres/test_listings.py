"""Listings read so many rows at most and go on from there; counts read so much of a table."""

from typing import Any

import pytest

from core.kafka.message import KafkaMessage
from core.waits.messages import Cancel
from core.waits.state import Wait
from core.waits.transitions import apply
from serve_app.http.cursors import read_wait_cursor, wait_cursor
from serve_app.waits.event_models import InboxPage
from serve_app.waits.wait_models import WaitPage
from storage.kafka import dead_letters
from storage.kafka.dead_letters import DeadLetterFilter
from storage.postgres import bounded_scan
from storage.postgres.pool import Pool
from storage.waits import inbox, waits
from storage.waits.flush import NO_VERSION, FlushWriter, WaitChange, write_parked
from storage.waits.inbox import InboxFilter
from storage.waits.waits import WaitFilter
from tests.support.shards import address, api, register

NOW = 1_800_000_000.0


async def _open(pool: Pool, at: float, *, cancelled: bool = False) -> Wait:
    message = register(address())
    wait = apply(None, message, at).wait
    assert wait is not None
    if cancelled:
        wait = apply(wait, Cancel(address=message.address, turn_id="c"), at).wait
        assert wait is not None
    async with pool.acquire() as conn:
        await FlushWriter("a", 60.0).flush(
            conn, [WaitChange(message.address.key, 1, NO_VERSION, wait)]
        )
    return wait


async def _all_waits(pool: Pool, chosen: WaitFilter, limit: int = 2) -> tuple[list[str], int]:
    """All that a listing finds, page by page, and how many pages there were."""
    found: list[str] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        page = await waits.page(pool, 1, chosen, read_wait_cursor(cursor), limit)
        found += [wait.address.correlation_id for wait in page.items]
        shown = WaitPage.of_scan(
            page, limit, lambda wait: (wait.opened_at, wait.address.key), wait_cursor
        )
        cursor, pages = shown.next_cursor, pages + 1
        assert pages < 50
    return found, pages


async def test_waits_that_a_filter_seldom_means_are_found_look_by_look(
    api_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_scan, "SCAN_LIMIT", 3)
    # Several of one moment, as a batch makes them: more than one look reads.
    moments = [0, 1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 6]
    made = [
        await _open(api_pool, NOW + at, cancelled=place in (0, 3, 11))
        for place, at in enumerate(moments)
    ]
    meant = [made[place].address.correlation_id for place in (11, 3, 0)]
    found, pages = await _all_waits(api_pool, WaitFilter(status="cancelled"))
    assert found == meant
    assert pages > 2
    everything, _ = await _all_waits(api_pool, WaitFilter())
    assert sorted(everything) == sorted(one.address.correlation_id for one in made)
    assert len(await _pages(api_pool, WaitFilter(execution_id=made[0].address.execution_id))) == 1


async def _pages(pool: Pool, chosen: WaitFilter) -> list[Wait]:
    """What one look finds: an index serves it, however far away it is."""
    page = await waits.page(pool, 1, chosen, None, 10)
    assert page.scanned_to is None
    return page.items


async def test_a_look_that_finds_nothing_says_where_to_go_on(
    api_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_scan, "SCAN_LIMIT", 2)
    oldest = await _open(api_pool, NOW, cancelled=True)
    for at in range(1, 4):
        await _open(api_pool, NOW + at)
    first = await waits.page(api_pool, 1, WaitFilter(status="cancelled"), None, 10)
    assert (first.items, first.scanned_to is None) == ([], False)
    second = await waits.page(api_pool, 1, WaitFilter(status="cancelled"), first.scanned_to, 10)
    assert [one.address for one in second.items] == [oldest.address]
    assert second.scanned_to is None


async def test_the_inbox_is_read_look_by_look(
    api_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_scan, "SCAN_LIMIT", 2)
    for number in range(5):
        where = address(correlation="rare" if number == 0 else "usual")
        (parked,) = apply(None, api(where), NOW).parked
        async with api_pool.acquire() as conn:
            await write_parked(conn, [(where.key, parked)], 60.0)
    chosen, rows, before, pages = InboxFilter(correlation_id="rare"), [], None, 0
    while pages == 0 or before is not None:
        found = await inbox.page(api_pool, 1, chosen, before, 10)
        rows += found.items
        more = InboxPage.of_scan(found, 10, lambda row: row["inbox_id"]).next_cursor
        before, pages = int(more) if more else None, pages + 1
    assert ([row["correlation_id"] for row in rows], pages) == (["rare"], 3)
    assert (await inbox.page(api_pool, 1, InboxFilter(), None, 10)).scanned_to is None


async def test_dead_letters_are_read_look_by_look(
    api_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for offset in range(5):
        topic = "rare" if offset == 0 else "usual"
        record = KafkaMessage(
            topic=topic, partition=0, offset=offset, value=b"x", key=None, headers=()
        )
        await dead_letters.add(api_pool, 1, [(record, "bad")])
    assert await dead_letters.count(api_pool, 1) == {"rare": 1, "usual": 4}
    monkeypatch.setattr(bounded_scan, "SCAN_LIMIT", 2)
    letters: list[Any] = []
    before, pages = None, 0
    while pages == 0 or before is not None:
        found = await dead_letters.page(api_pool, 1, DeadLetterFilter(topic="rare"), before, 10)
        letters += found.items
        before, pages = found.scanned_to, pages + 1
    assert ([one.offset for one in letters], pages) == ([0], 3)
    assert await dead_letters.count(api_pool, 1) == {"usual": 2}


async def test_small_tables_are_counted_exactly_and_large_ones_by_a_sample(
    api_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(20):
        await _open(api_pool, NOW + at, cancelled=at < 5)
    assert await waits.count_by_status(api_pool) == {"waiting": 15, "cancelled": 5}
    assert await inbox.count_by_verdict(api_pool) == {}
    await api_pool.execute(
        """insert into event_inbox
                  (tenant_id, wait_key, event_id, turn_id, source, label, content_type, payload,
                   outcome, verdict, reason, received_at, expires_at)
           select 1, '', n::text, 't', 'api', 'x', 'x', '', 'received',
                  case when n % 10 = 0 then 'rejected' else 'buffered' end, 'r', now(), now()
             from generate_series(1, 40000) as n"""
    )
    exact = {("buffered", "r"): 36_000, ("rejected", "r"): 4_000}
    assert await inbox.count_by_verdict(api_pool) == exact
    monkeypatch.setattr(bounded_scan, "SAMPLE_BYTES", 1_500_000)
    sampled = await inbox.count_by_verdict(api_pool)
    assert sampled != exact
    assert sampled["buffered", "r"] == pytest.approx(36_000, rel=0.4)


def test_a_sample_is_scaled_to_the_whole() -> None:
    assert bounded_scan.sample_percent(bounded_scan.SAMPLE_BYTES) == 100.0
    assert bounded_scan.sample_percent(4 * bounded_scan.SAMPLE_BYTES) == 25.0
    assert bounded_scan.scaled(5, 25.0) == 20
