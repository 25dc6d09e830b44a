"""The page at /gather in a real browser, against the running product and the demo's resources."""

import asyncio
import json
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, expect

from tests.support.product import Product, until
from tests.ui.gather_page import GatherPage, visiting
from tests.ui.way import Way
from tools.demo.gathers.resource import DemoResources

# Delays of the demo's resources: at once, refused, accepted and then nothing.
NOW, NO, NEVER = "0", "-1", "-12"
# What the browser itself writes about a 401.
REFUSED = "Failed to load resource: the server responded with a status of 401 (Unauthorized)"


def call_back(product: Product, correlation: str, source: str, *notes: str) -> None:
    """Send a callback in a resource's place, with these notes, the first the oldest."""
    written = [
        {"id": f"{source}-{n}", "date": f"2026-01-0{n}T08:00:00", "note": note}
        for n, note in enumerate(notes, start=1)
    ]
    body = {"source": source, "correlationId": correlation, "patientId": "19121212-1212"}
    reply = product.http.post(
        "/aggregate/callback", json=body | {"delayMs": 0, "status": "ok", "notes": written}
    )
    assert reply.status_code == 200, reply.text


def _has_status(product: Product, path: str, status: str) -> bool:
    return bool(product.http.get(path).json()["status"] == status)


async def test_it_opens_ready_to_go(gather: GatherPage, product: Product) -> None:
    assert await gather.fields() == {
        "key": product.key,
        "patientId": "19121212-1212",
        "delays": "1000,3000,5000",
        "timeoutMs": "10000",
        "strategy": "SSE",
    }
    await expect(gather.key).to_have_attribute("type", "password")
    await expect(gather.timeout).to_have_attribute("max", "27000")
    await expect(gather.status).to_have_text("Idle")
    await expect(gather.start).to_be_enabled()
    await expect(gather.stop).to_be_disabled()
    await expect(gather.problem).to_be_hidden()
    assert [urlsplit(url).path for url in gather.requested] == [
        "/gather",
        "/gather.css",
        "/gather.js",
    ]


async def test_the_key_leaves_the_address_and_is_stored_nowhere(
    gather: GatherPage, product: Product
) -> None:
    assert gather.page.url == f"{product.url}/gather"
    await expect(gather.key).to_have_value(product.key)
    stored = "JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])"
    assert await gather.page.evaluate(stored) == '[{},{},""]'
    await gather.page.reload()
    await expect(gather.key).to_have_value("")
    await gather.page.evaluate("location.hash = 'key=mk_another'")
    await expect(gather.key).to_have_value("mk_another")
    assert gather.page.url == f"{product.url}/gather"
    assert not any(product.key in url for url in gather.requested[1:])


async def test_a_whole_run(gather: GatherPage) -> None:
    for element in (gather.received, gather.connection, gather.status):
        await gather.remember(element)
    await gather.gather("0,300,600")
    await expect(gather.told).to_contain_text("Completed")
    assert await gather.remembered(gather.status) == ["Idle", "Listening", "Completed"]
    assert await gather.remembered(gather.connection) == ["Closed", "Connecting", "Open", "Closed"]
    assert await gather.remembered(gather.received) == [
        f"{count} of 3 received" for count in range(4)
    ]
    await expect(gather.told).to_contain_text("full")
    await expect(gather.respondents).to_have_text("3")
    await expect(gather.errors).to_have_text("0")
    await expect(gather.progress).to_have_js_property("value", 3)
    for number, delay in ((1, 0), (2, 300), (3, 600)):
        await expect(gather.resource(number)).to_contain_text(f"ok{delay} ms · 3 notes")
    assert await gather.events() == ["request", "reply", *["callback"] * 3, "summary"]
    await expect(gather.start).to_be_enabled()
    await expect(gather.stop).to_be_disabled()


async def test_notes_are_newest_first_and_tell_their_source(gather: GatherPage) -> None:
    await gather.gather("0,0,0")
    await expect(gather.notes).to_have_count(9)
    dates = await gather.notes.locator("time").evaluate_all("(all) => all.map((t) => t.dateTime)")
    assert dates == sorted(dates, reverse=True)
    sources = await gather.notes.locator(".badge").all_inner_texts()
    assert sorted(sources) == sorted(["resource-1", "resource-2", "resource-3"] * 3)


async def test_the_log_tells_each_event_with_its_time(gather: GatherPage) -> None:
    await gather.gather("0,0,0")
    await expect(gather.status).to_have_text("Completed")
    newest = await gather.log.first.inner_text()
    time, kind, number, data = newest.split(" ", 3)
    assert (len(time), kind, number[0]) == (len("08:15:30.123"), "summary", "#")
    correlation = await gather.correlation_id()
    assert json.loads(data)["correlationId"] == correlation
    # The address of the stream opens it for anybody: not for show.
    assert "token" not in await gather.page.locator("#log").inner_text()


async def test_the_log_is_bounded(gather: GatherPage) -> None:
    await gather.page.evaluate("for (let n = 0; n < 600; n++) writeLog('line', n)")
    await expect(gather.log).to_have_count(500)
    await expect(gather.log.first).to_contain_text("line 599")


async def test_one_rejects_and_one_is_late(gather: GatherPage) -> None:
    await gather.gather(f"{NO},{NOW},{NEVER}", timeout_ms=2_000)
    await expect(gather.told).to_contain_text("Completed")
    await expect(gather.told).to_contain_text("partial")
    await expect(gather.received).to_have_text("3 of 3 received")
    await expect(gather.respondents).to_have_text("1")
    await expect(gather.errors).to_have_text("1")
    await expect(gather.resource(1)).to_contain_text("REJECTED")
    await expect(gather.resource(2)).to_contain_text("ok")
    await expect(gather.resource(3)).to_contain_text("TIMEOUT")
    await expect(gather.notes).to_have_count(3)
    kinds = await gather.events()
    assert sorted(kinds[2:4]) == ["callback", "rejected"]
    assert kinds[4:] == ["timeout", "summary"]


async def test_an_error_of_a_resource_is_no_lost_connection(gather: GatherPage) -> None:
    await gather.remember(gather.connection)
    await gather.gather(f"-2,{NOW},{NOW}")
    await expect(gather.status).to_have_text("Completed")
    await expect(gather.resource(1)).to_contain_text("ERROR")
    await expect(gather.errors).to_have_text("1")
    assert "Reconnecting" not in await gather.remembered(gather.connection)


async def test_one_reply_for_all_shows_the_same(gather: GatherPage) -> None:
    await gather.remember(gather.connection)
    await gather.gather(f"300,{NOW},{NO}", wait=True)
    await expect(gather.told).to_contain_text("Completed")
    assert await gather.remembered(gather.connection) == ["Closed", "One reply for all", "Closed"]
    await expect(gather.told).to_contain_text("partial")
    await expect(gather.received).to_have_text("3 of 3 received")
    await expect(gather.respondents).to_have_text("2")
    await expect(gather.errors).to_have_text("0")
    await expect(gather.resource(1)).to_contain_text("ok300 ms · 3 notes")
    await expect(gather.resource(3)).to_contain_text("REJECTED")
    sources = await gather.notes.locator(".badge").all_inner_texts()
    assert sorted(sources) == ["resource-1"] * 3 + ["resource-2"] * 3
    assert await gather.events() == ["request", "reply"]
    assert await gather.correlation_id() in await gather.log.first.inner_text()


async def test_a_second_run_starts_afresh_and_works_by_keyboard(gather: GatherPage) -> None:
    await gather.gather(f"{NOW},{NOW},{NO}")
    await expect(gather.status).to_have_text("Completed")
    first = await gather.correlation_id()
    await gather.delays.fill(f"{NOW},{NO},{NO}")
    await gather.delays.press("Enter")
    await expect(gather.correlation).not_to_have_text(first)
    await expect(gather.status).to_have_text("Completed")
    await expect(gather.respondents).to_have_text("1")
    await expect(gather.notes).to_have_count(3)


async def test_stop_closes_the_stream_and_the_gather_is_cancelled(
    gather: GatherPage, product: Product
) -> None:
    await gather.gather(f"{NOW},{NEVER},{NEVER}", timeout_ms=27_000)
    await expect(gather.received).to_have_text("1 of 3 received")
    await expect(gather.start).to_be_disabled()
    await expect(gather.resource(2)).to_contain_text("waiting")
    await gather.stop.click()
    await expect(gather.told).to_contain_text("Idle")
    await expect(gather.told).to_contain_text("stopped")
    await expect(gather.connection).to_have_text("Closed")
    await expect(gather.resource(2)).to_contain_text("no answer")
    await expect(gather.start).to_be_enabled()
    await expect(gather.stop).to_be_disabled()
    path = f"/api/gathers/{await gather.correlation_id()}"
    ended = partial(_has_status, product, path, "cancelled")
    await asyncio.to_thread(until, "the gather is cancelled", ended)


async def test_stop_leaves_a_reply_that_has_not_come(gather: GatherPage) -> None:
    await gather.gather(f"{NEVER},{NEVER},{NEVER}", timeout_ms=27_000, wait=True)
    await expect(gather.start).to_be_disabled()
    await gather.stop.click()
    await expect(gather.told).to_contain_text("Idle")
    await expect(gather.start).to_be_enabled()
    await expect(gather.problem).to_be_hidden()


async def test_a_lost_connection_comes_back_where_it_was(
    browser: Browser, product: Product, resources: DemoResources
) -> None:
    async with Way(product.url) as way, visiting(browser, way.url, product.key) as gather:
        await gather.be_patient()
        await gather.gather(f"{NOW},{NEVER},{NEVER}", timeout_ms=27_000)
        await expect(gather.received).to_have_text("1 of 3 received")
        way.cut()
        await expect(gather.connection).to_have_text("Reconnecting")
        await expect(gather.status).to_have_text("Listening")
        correlation = await gather.correlation_id()
        call_back(product, correlation, "resource-2", "while it was away")
        way.mend()
        await expect(gather.received).to_have_text("2 of 3 received")
        await expect(gather.connection).to_have_text("Open")
        call_back(product, correlation, "resource-3", "when it was back")
        await expect(gather.told).to_contain_text("Completed")
        await expect(gather.notes).to_have_count(5)
        kinds = [kind for kind in await gather.events() if kind != "connection"]
        assert kinds == ["request", "reply", *["callback"] * 3, "summary"]


@pytest.mark.parametrize("status", [429, 503])
async def test_a_stream_that_is_refused_for_the_moment_is_opened_again(
    gather: GatherPage, product: Product, status: int
) -> None:
    await gather.be_patient()
    # Each time the stream itself, and the question why.
    await gather.refuse_streams(4, status)
    await gather.gather(f"{NOW},{NOW},{NEVER}", timeout_ms=27_000)
    await expect(gather.connection).to_have_text("Open")
    call_back(product, await gather.correlation_id(), "resource-3", "at last")
    await expect(gather.status).to_have_text("Completed")
    await expect(gather.notes).to_have_count(7)
    await expect(gather.problem).to_be_hidden()
    assert (await gather.events()).count("connection") == 2
    assert all(str(status) in complaint for complaint in gather.complaints)
    gather.complaints.clear()


async def test_one_that_comes_back_after_a_refusal_sees_everything_once(
    browser: Browser, product: Product, resources: DemoResources
) -> None:
    async with Way(product.url) as way, visiting(browser, way.url, product.key) as gather:
        await gather.be_patient()
        await gather.gather(f"{NOW},{NOW},{NEVER}", timeout_ms=27_000)
        await expect(gather.received).to_have_text("2 of 3 received")
        await gather.refuse_streams(2, 503)
        way.cut()
        await expect(gather.connection).to_have_text("Reconnecting")
        way.mend()
        await expect(gather.connection).to_have_text("Open")
        call_back(product, await gather.correlation_id(), "resource-3", "at last")
        await expect(gather.status).to_have_text("Completed")
        kinds = [kind for kind in await gather.events() if kind != "connection"]
        assert kinds == ["request", "reply", *["callback"] * 3, "summary"]


async def test_what_resources_say_is_text_and_never_markup(
    gather: GatherPage, product: Product
) -> None:
    evil = "<img src=x onerror=\"document.title='taken'\"><b>bold</b>"
    await gather.patient.fill(evil)
    await gather.gather(f"{NOW},{NOW},{NEVER}")
    call_back(product, await gather.correlation_id(), "resource-3", evil)
    await expect(gather.status).to_have_text("Completed")
    await expect(gather.notes.filter(has_text=evil)).to_have_count(1)
    await expect(gather.page.locator("main img, main b")).to_have_count(0)
    assert await gather.page.title() == "Muster Gather"


async def test_a_wrong_key_is_told(gather: GatherPage, product: Product) -> None:
    await gather.key.fill(product.key[:-4] + "0000")
    await gather.gather("0,0,0")
    await expect(gather.problem).to_contain_text("this API key is unknown, expired or revoked")
    await expect(gather.status).to_have_text("Failed")
    await expect(gather.key).to_have_attribute("aria-invalid", "true")
    await expect(gather.key).to_be_focused()
    await expect(gather.start).to_be_enabled()
    assert gather.complaints.pop() == REFUSED


async def test_a_stream_that_is_refused_tells_why(gather: GatherPage) -> None:
    await gather.spoil_the_token()
    await gather.gather("0,0,0")
    await expect(gather.problem).to_contain_text("token")
    await expect(gather.status).to_have_text("Failed")
    await expect(gather.start).to_be_enabled()
    assert set(gather.complaints) == {REFUSED}
    gather.complaints.clear()


async def test_a_wrong_field_is_named_and_put_right(gather: GatherPage) -> None:
    await gather.page.locator("#form").evaluate("(form) => { form.noValidate = true; }")
    await gather.gather("0,0,0", timeout_ms=0)
    await expect(gather.problem).to_contain_text("timeoutMs")
    await expect(gather.timeout).to_have_attribute("aria-invalid", "true")
    assert "422" in gather.complaints.pop()
    await gather.gather("0,0,0")
    await expect(gather.status).to_have_text("Completed")
    await expect(gather.problem).to_be_hidden()
    await expect(gather.timeout).not_to_have_attribute("aria-invalid", "true")


@pytest.mark.parametrize("wrong", [{"timeoutMs": "27001"}, {"patientId": ""}, {"key": ""}])
async def test_what_cannot_be_right_is_not_sent(gather: GatherPage, wrong: dict[str, Any]) -> None:
    for name, value in wrong.items():
        await gather.page.locator(f"#{name}").fill(value)
    await gather.start.click()
    await expect(gather.status).to_have_text("Idle")
    assert len(gather.requested) == 3


async def test_a_server_that_is_away_is_told(browser: Browser, product: Product) -> None:
    async with Way(product.url) as way, visiting(browser, way.url, product.key) as gather:
        way.cut()
        await gather.gather("0,0,0")
        await expect(gather.problem).to_contain_text("Muster did not answer")
        await expect(gather.status).to_have_text("Failed")
        await expect(gather.start).to_be_enabled()


async def test_without_resources_it_tells_how_to_start_some(
    browser: Browser, stranger: Product
) -> None:
    async with visiting(browser, stranger.url, stranger.key) as gather:
        await gather.gather("0,0,0")
        await expect(gather.problem).to_contain_text("resource-1")
        await expect(gather.problem.locator("code")).to_have_text("muster demo gather --keep")
        await expect(gather.status).to_have_text("Failed")


async def test_nothing_moves_for_whoever_wants_no_motion(gather: GatherPage) -> None:
    moving = "(node) => getComputedStyle(node).animationName"
    await gather.gather(f"{NEVER},{NEVER},{NEVER}", timeout_ms=27_000)
    assert await gather.status.evaluate(moving) == "listening"
    await gather.page.emulate_media(reduced_motion="reduce")
    assert await gather.status.evaluate(moving) == "none"
    await gather.stop.click()
