"""Merge fields in texts: nested paths, missing values, escaped braces."""

import pytest

from core.records.data_path import InvalidDataPathError
from core.templates.rendering import TemplateValueError
from core.templates.template import InvalidTemplateError, compile_document
from services.records.merge_field_renderer import MergeFieldRenderer
from tests.unit.core.records.definitions import LINE
from tests.unit.services.records.shop_reader import TENANT, ShopReader


async def render(template: str) -> str:
    renderer = MergeFieldRenderer(ShopReader().resolver)
    return await renderer.render(TENANT, "order_lines", template, LINE)


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("Hello {{order_id.customer_id.email}}, {{ product }}!", "Hello jo@example.com, pen!"),
        ("no tokens", "no tokens"),
        ("", ""),
        ("<{{seller_id}}{{order_id.customer_id.name}}>", "<>"),
        (r"\{{product}} is {{product}}", "{{product}} is pen"),
        ("{{order_id.total}}", "12.5"),
        ("{{seller_id}}", ""),
    ],
)
async def test_paths_are_replaced_by_their_values(template: str, rendered: str) -> None:
    assert await render(template) == rendered


async def test_all_paths_of_a_template_are_one_query() -> None:
    reader = ShopReader()
    text = "{{order_id.total}} {{order_id.name}} {{order_id.total}} {{product}}"
    renderer = MergeFieldRenderer(reader.resolver)
    assert await renderer.render(TENANT, "order_lines", text, LINE) == "12.5 first 12.5 pen"
    assert len(reader.queries) == 1
    assert await renderer.render(TENANT, "order_lines", "no tokens", LINE) == "no tokens"
    assert len(reader.queries) == 1


async def test_what_cannot_be_rendered_says_why() -> None:
    with pytest.raises(InvalidDataPathError, match="collection orders has no field x"):
        await render("{{order_id.x}}")
    with pytest.raises(InvalidTemplateError, match="is not closed"):
        await render("{{order_id.x")


async def test_documents_keep_types_and_may_be_strict() -> None:
    renderer = MergeFieldRenderer(ShopReader().resolver)
    template = compile_document({"total": "{{order_id.total}}", "n": ["@{_vars.n}"]})
    scope = {"_vars": {"n": 3}}
    found = await renderer.render_document(
        TENANT, "order_lines", template, LINE, scope, strict=True
    )
    assert found == {"total": 12.5, "n": [3]}
    nothing = compile_document(["{{seller_id}}"])
    assert await renderer.render_document(TENANT, "order_lines", nothing, LINE) == [None]
    with pytest.raises(TemplateValueError, match=r"\{\{seller_id\}\} has no value"):
        await renderer.render_document(TENANT, "order_lines", nothing, LINE, strict=True)
