"""What the documentation says is there, is there."""

import re
from pathlib import Path

from core.access.permissions import Permission
from core.shared.config import Config
from serve_app.api import Api, create_app
from settings.table import list_settings

ROOT = Path(__file__).parents[3]


def app() -> Api:
    async def no_client() -> object:
        raise AssertionError("documents need no client")

    return create_app(no_client, Config(dsn=""))  # type: ignore[arg-type]


def test_every_setting_is_documented_as_it_is_declared() -> None:
    text = (ROOT / "docs/reference/settings.md").read_text()
    documented = dict(re.findall(r"^\| `MUSTER_(\w+)` \|.*?\| (.*) \|$", text, re.MULTILINE))
    declared = {row.name.upper(): row.description for row in list_settings()}
    assert documented == declared


def test_every_route_is_in_the_reference_with_its_permission() -> None:
    text = (ROOT / "docs/reference/http.md").read_text()
    documented = set(re.findall(r"^\| `(\w+ /\S*)` \| `?([\w:]+)`? \|", text, re.MULTILINE))
    routes = {
        (f"{method.upper()} {path}", operation.get("x-permission", "public"))
        for path, operations in app().openapi()["paths"].items()
        for method, operation in operations.items()
    }
    assert documented == routes


def test_every_permission_is_explained() -> None:
    text = (ROOT / "docs/how-to/keys-and-tenants.md").read_text()
    assert all(f"`{permission}`" in text for permission in Permission)


def test_links_between_documents_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    broken = [
        f"{page.relative_to(ROOT)} → {target}"
        for page in pages
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_the_tests_that_hold_what_is_promised_are_there() -> None:
    text = (ROOT / "docs/security.md").read_text()
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text)
    assert len(named) > 20
    assert [path for path in named if not (ROOT / "tests" / path).exists()] == []


def test_the_glossary_names_modules_that_are_there() -> None:
    text = (ROOT / "docs/reference/glossary.md").read_text()
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text)
    assert len(named) > 50
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_modules_of_the_architecture_are_there() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text)
    assert len(named) > 30
    assert [path for path in named if not (ROOT / path).exists()] == []
