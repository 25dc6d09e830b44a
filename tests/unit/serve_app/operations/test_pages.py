"""What the pages at /docs and /gather are made of, and what a browser is told about them."""

import re
from importlib.resources import files

import pytest
from starlette.responses import Response

from serve_app.operations import pages

PAGES = {
    "/docs": ("text/html", "docs.html"),
    "/docs.js": ("text/javascript", "docs.js"),
    "/docs.css": ("text/css", "docs.css"),
    "/gather": ("text/html", "gather.html"),
    "/gather.js": ("text/javascript", "gather.js"),
    "/gather.css": ("text/css", "gather.css"),
}


def source(name: str) -> str:
    return (files("serve_app") / "pages" / name).read_text(encoding="utf-8")


async def fetch(path: str) -> Response:
    answer: Response = await next(r for r in pages.router.routes if r.path == path).endpoint()  # type: ignore[attr-defined]
    return answer


def test_there_are_three_files_for_each_and_no_more() -> None:
    assert {route.path for route in pages.router.routes} == {"/openapi.json", *PAGES}  # type: ignore[attr-defined]
    kept = {file.name for file in (files("serve_app") / "pages").iterdir()}
    assert kept == {name for _, name in PAGES.values()}


@pytest.mark.parametrize("path", PAGES)
async def test_each_is_served_as_what_it_is_and_for_this_place_only(path: str) -> None:
    kind, name = PAGES[path]
    reply = await fetch(path)
    assert bytes(reply.body).decode() == source(name)
    assert reply.headers["Content-Type"] == f"{kind}; charset=utf-8"
    assert reply.headers["Referrer-Policy"] == "no-referrer"
    assert reply.headers["Cache-Control"] == "no-cache"
    rules = dict(
        rule.strip().split(" ", 1) for rule in reply.headers["Content-Security-Policy"].split(";")
    )
    assert rules["default-src"] == "'none'"
    assert rules["frame-ancestors"] == "'none'"
    assert set(rules.values()) == {"'none'", "'self'"}, "nothing inline, nothing from elsewhere"


@pytest.mark.parametrize("name", [name for _, name in PAGES.values()])
def test_nothing_comes_from_elsewhere(name: str) -> None:
    assert "//" not in re.sub(r"^\s*// .*$", "", source(name), flags=re.MULTILINE)


@pytest.mark.parametrize("name", ["docs.js", "gather.js"])
def test_what_servers_say_is_never_markup(name: str) -> None:
    markup = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function\("
    assert not re.search(markup, source(name))


@pytest.mark.parametrize("name", ["docs.js", "gather.js"])
def test_no_key_is_stored(name: str) -> None:
    assert not re.search(r"Storage|cookie|indexedDB|caches", source(name))


@pytest.mark.parametrize("name", ["docs.html", "gather.html"])
def test_scripts_and_styles_stand_in_files_of_their_own(name: str) -> None:
    page = source(name)
    assert re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL) == [""]
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)


def test_every_field_has_a_label() -> None:
    page = source("gather.html")
    fields = re.findall(r'<(?:input|select) id="(\w+)"', page)
    assert sorted(fields) == sorted(re.findall(r'<label for="(\w+)"', page))
    assert len(fields) == 5
