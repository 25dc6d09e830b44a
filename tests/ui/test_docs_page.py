"""The page at /docs under its own rules: it shows the whole API, and nothing else runs there."""

import re

from playwright.async_api import Browser, expect

from tests.support.product import Product


async def test_it_shows_every_operation_and_fetches_from_here_only(
    browser: Browser, product: Product
) -> None:
    complaints: list[str] = []
    requested: list[str] = []
    page = await browser.new_page()
    try:
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requested.append(request.url))
        await page.goto(f"{product.url}/docs")
        document = await page.evaluate("fetch('openapi.json').then((reply) => reply.json())")
        operations = sum(len(methods) for methods in document["paths"].values())
        await expect(page.locator("main details")).to_have_count(operations)
        await expect(page.locator("h1")).to_have_text("Muster HTTP API")
        # The style sheet holds: it was not refused.
        width = await page.evaluate("getComputedStyle(document.body).maxWidth")
        assert re.fullmatch(r"[\d.]+px", width)
        assert complaints == []
        paths = {url.removeprefix(product.url) for url in requested}
        assert paths == {"/docs", "/docs.js", "/docs.css", "/openapi.json"}
    finally:
        await page.close()


async def test_nothing_that_is_put_into_it_runs(browser: Browser, product: Product) -> None:
    page = await browser.new_page()
    try:
        await page.goto(f"{product.url}/docs")
        await page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.ran = true";
                document.body.append(script);
            }"""
        )
        assert await page.evaluate("window.ran") is None
    finally:
        await page.close()


async def test_no_other_page_can_frame_it(browser: Browser, product: Product) -> None:
    page = await browser.new_page()
    try:
        await page.goto("about:blank")
        await page.set_content(f'<iframe src="{product.url}/docs"></iframe>')
        frame = page.frames[1]
        await frame.wait_for_load_state()
        assert "Muster HTTP API" not in await frame.content(), "the browser says that it may not"
    finally:
        await page.close()
