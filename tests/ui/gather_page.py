"""The page at /gather as a person uses it: by the names that stand on it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, ConsoleMessage, Locator, Page, Route, expect

# Keeps every text that an element had, so that none is missed between two looks.
_REMEMBER = """(node) => {
  node.seen = [node.textContent];
  new MutationObserver(() => node.seen.push(node.textContent)).observe(
    node, { childList: true, characterData: true, subtree: true });
}"""


class GatherPage:
    """The page in a browser, and all that it asked for and complained of."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requested: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requested.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._heard)

        self.key = page.get_by_label("API key")
        self.patient = page.get_by_label("Patient id")
        self.delays = page.get_by_label("Delays (ms)")
        self.timeout = page.get_by_label("Timeout (ms)")
        self.strategy = page.get_by_label("Strategy")
        self.start = page.get_by_role("button", name="Gather", exact=True)
        self.stop = page.get_by_role("button", name="Stop", exact=True)

        self.told = page.get_by_role("status")
        self.status = page.locator("#status")
        self.connection = page.locator("#connection")
        self.progress = page.get_by_role("progressbar")
        self.received = page.locator("#received")
        self.correlation = page.locator("#correlationId")
        self.respondents = page.locator("#respondents")
        self.errors = page.locator("#errors")
        self.notes = page.locator("#notes > li")
        self.log = page.locator("#log > li")
        self.problem = page.get_by_role("alert")

    def resource(self, number: int) -> Locator:
        """The line of one resource."""
        lines = self.page.get_by_role("list", name="Resources").get_by_role("listitem")
        return lines.filter(has_text=f"resource-{number}")

    async def gather(self, delays: str, *, timeout_ms: int = 10_000, wait: bool = False) -> None:
        """Fill the form in and send it."""
        await self.delays.fill(delays)
        await self.timeout.fill(str(timeout_ms))
        await self.strategy.select_option("WAIT_FOR_EVERYONE" if wait else "SSE")
        await self.start.click()

    async def be_patient(self) -> None:
        """Let gathers wait long for a reader who lost the connection: machines may be slow."""

        async def add_grace(route: Route) -> None:
            body = route.request.post_data_json
            await route.continue_(post_data=json.dumps({**(body or {}), "graceMs": 20_000}))

        await self.page.route("**/aggregate/journals", add_grace)

    async def spoil_the_token(self) -> None:
        """Let the stream be asked for with a token that nobody signed."""

        async def spoil(route: Route) -> None:
            reply = await route.fetch()
            answer = await reply.json()
            await route.fulfill(
                response=reply, json=answer | {"streamUrl": f"{answer['streamUrl']}x"}
            )

        await self.page.route("**/aggregate/journals", spoil)

    async def refuse_streams(self, times: int, status: int) -> None:
        """Let so many requests for the stream be refused, and the others through."""
        left = times

        async def refuse(route: Route) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                await route.fallback()
            else:
                problem = {"status": status, "detail": "come again"}
                await route.fulfill(status=status, json=problem, headers={"Retry-After": "1"})

        await self.page.route("**/aggregate/stream*", refuse)

    async def correlation_id(self) -> str:
        """Of the gather on show, as soon as there is one."""
        await expect(self.correlation).not_to_have_text("–")  # noqa: RUF001
        return await self.correlation.inner_text()

    async def remember(self, element: Locator) -> None:
        """Keep every text that this element has from now on."""
        await element.evaluate(_REMEMBER)

    async def remembered(self, element: Locator) -> list[str]:
        """Those texts, without repetitions."""
        seen: list[str] = await element.evaluate("(node) => node.seen")
        return [text for index, text in enumerate(seen) if index == 0 or seen[index - 1] != text]

    async def events(self) -> list[str]:
        """What the log tells, oldest first: the kind of each line."""
        lines = await self.log.all_inner_texts()
        return [line.split()[1] for line in reversed(lines)]

    async def fields(self) -> dict[str, Any]:
        """What stands in the form."""
        named = ("key", "patientId", "delays", "timeoutMs", "strategy")
        return {name: await self.page.locator(f"#{name}").input_value() for name in named}

    def strangers(self) -> set[str]:
        """The hosts beyond this machine that the page asked."""
        return {urlsplit(url).netloc for url in self.requested} - {urlsplit(self.page.url).netloc}

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


@asynccontextmanager
async def visiting(browser: Browser, url: str, key: str) -> AsyncIterator[GatherPage]:
    """The page, opened by a link with the key."""
    context = await browser.new_context()
    context.set_default_timeout(15_000)
    try:
        shown = GatherPage(await context.new_page())
        await shown.page.goto(f"{url}/gather#key={key}")
        yield shown
    finally:
        await context.close()
