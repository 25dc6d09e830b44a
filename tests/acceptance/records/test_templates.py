"""Templates over HTTP and on the command line, on the running product."""

import json
from typing import Any

import pytest

from tests.acceptance.records.shop import Shop
from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product

RENDER = "/control/templates/render"
GREETING = "Dear {{order_id.customer_id.name}}, your {{product}} is @{_vars.state}."


@pytest.fixture(scope="module")
def shop(product: Product) -> Shop:
    made = Shop(product)
    made.fill()
    return made


def render(shop: Shop, template: Any, **more: Any) -> Any:
    body = {"template": template, "collectionId": shop.name("lines"), "recordId": "l1", **more}
    reply = shop.owner.http.post(RENDER, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_text_is_rendered_with_paths_and_scope(shop: Shop) -> None:
    assert render(shop, GREETING, scope={"_vars": {"state": "here"}}) == {
        "rendered": "Dear Jo, your tea is here.",
        "missing": [],
    }
    assert render(shop, GREETING, recordId="l2")["rendered"] == "Dear , your  is ."


def test_a_document_keeps_types(shop: Shop) -> None:
    template = {
        "total": "{{order_id.total}}",
        "texts": ["{{order_id.total}} kr", r"\{{x}}"],
        "n": 1,
    }
    assert render(shop, template)["rendered"] == {
        "total": 60,
        "texts": ["60 kr", "{{x}}"],
        "n": 1,
    }


def test_values_are_escaped_in_json_and_html(shop: Shop) -> None:
    record = {"name": '<b>"'}
    body = {"template": '{"a": "{{name}}", "b": {{name}}}', "format": "json", "record": record}
    rendered = shop.owner.http.post(RENDER, json=body).json()["rendered"]
    assert json.loads(rendered) == {"a": '<b>"', "b": '<b>"'}
    body = {"template": "<p>{{name}}</p>", "format": "html", "record": record}
    rendered = shop.owner.http.post(RENDER, json=body).json()["rendered"]
    assert rendered == "<p>&lt;b&gt;&quot;</p>"


def test_secrets_stay_placeholders_and_encrypted_values_are_masked(shop: Shop) -> None:
    found = render(shop, "@{_secrets.KEY} {{order_id.customer_id.token}}")["rendered"]
    assert found.startswith("@{_secrets.KEY} ")
    assert "sealed" not in found


def test_what_is_missing_is_named_or_an_error(shop: Shop) -> None:
    found = render(shop, "{{product}} @{_vars.x} {{order_id.customer_id.name}}", recordId="l2")
    assert found == {
        "rendered": "  ",
        "missing": ["{{product}}", "@{_vars.x}", "{{order_id.customer_id.name}}"],
    }
    body = {"template": "@{x}", "strict": True}
    problem = assert_problem(shop.owner.http.post(RENDER, json=body), 422, "invalid")
    assert "@{x} has no value" in problem["detail"]


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        ({}, "template", "is required"),
        ({"template": "{{a"}, "template", "character 1: {{ is not closed"),
        ({"template": "{{a.b}}", "record": {}}, "collectionId", "a.b leads over a relationship"),
        ({"template": "{{SCRIPT[x].y}}"}, "template", "scripts run in workflows"),
        ({"template": ["a"], "format": "html"}, "body", "a text as the template"),
        ({"template": "x", "recordId": "l1"}, "body", "collectionId"),
        ({"template": "x", "format": "pdf"}, "format", "'plain', 'json' or 'html'"),
        ({"template": "x" * 262_145}, "template", "262,144 characters at most"),
        ({"template": "{{a}}" * 20, "record": {"a": "x" * 60_000}}, "template", "is longer than"),
    ],
)
def test_what_cannot_be_rendered_says_why(
    shop: Shop, body: dict[str, Any], field: str, says: str
) -> None:
    problem = assert_problem(shop.owner.http.post(RENDER, json=body), 422, "invalid")
    assert faulty_fields(problem) == {field}
    assert says in problem["detail"]


def test_a_document_that_is_too_deep_is_refused(shop: Shop) -> None:
    deep = '{"template": ' + "[" * 40 + "]" * 40 + "}"
    headers = {"Content-Type": "application/json"}
    problem = assert_problem(
        shop.owner.http.post(RENDER, content=deep, headers=headers), 422, "invalid"
    )
    assert "32 levels at most" in problem["detail"]
    deeper = '{"template": ' + "[" * 10_000 + "]" * 10_000 + "}"
    reply = shop.owner.http.post(RENDER, content=deeper, headers=headers)
    assert reply.status_code in {400, 422}


def test_the_command_line_renders(shop: Shop) -> None:
    where = ("--collection", shop.name("lines"), "--record", "l1")
    scope = json.dumps({"_vars": {"state": "here"}})
    text = shop.owner.cli("templates", "render", GREETING, *where, "--scope", scope)
    assert text.stdout == "Dear Jo, your tea is here.\n"
    missing = shop.owner.cli("templates", "render", GREETING, *where)
    assert "Without a value: @{_vars.state}" in missing.stderr
    document = json.dumps({"to": "{{order_id.customer_id.email}}"})
    found = shop.owner.cli("templates", "render", document, "--document", *where)
    assert json.loads(found.stdout) == {"to": "jo@example.com"}
