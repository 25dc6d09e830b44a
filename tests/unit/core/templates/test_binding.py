"""Templates that are filled in step by step, by processes that know different things."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.shared.json_path import MISSING, find
from core.templates import rendering
from core.templates.rendering import (
    LATER,
    TemplateRenderer,
    TemplateValueError,
    leave_for_later,
    lookup_in,
)
from core.templates.stored_template import decode_template, encode_template
from core.templates.template import (
    BoundValue,
    DocumentTemplate,
    Placeholder,
    PlaceholderKind,
    Template,
    TextFormat,
    compile_document,
    compile_text,
    placeholders_of,
)

PATHS = {"name": "Jo", "total": 12.5, "evil": "@{_secrets.KEY} {{name}} @{fetch.x}", "none": None}
SCOPE = {"_vars": {"n": 3, "text": "x"}}
RESULTS = {"fetch": {"x": 7, "text": 'say "hi"'}}


def is_later(placeholder: Placeholder) -> bool:
    return placeholder.name.startswith("fetch")


def bind(template: DocumentTemplate) -> DocumentTemplate:
    """As a shard does: records and variables are known, secrets and results are not."""
    look = leave_for_later(lookup_in(PATHS, SCOPE), is_later)
    bound = TemplateRenderer(look).bind(template)
    return decode_template(json.loads(json.dumps(encode_template(bound))))


def perform(template: DocumentTemplate) -> Any:
    """As a worker does: only what was left is asked for."""

    def look(placeholder: Placeholder) -> Any:
        if placeholder.kind is PlaceholderKind.SECRET:
            return f"<{placeholder.name}>"
        assert is_later(placeholder)
        return find(RESULTS, placeholder.name)

    return TemplateRenderer(look).render(template)


@pytest.mark.parametrize(
    ("document", "rendered"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{{total}}", 12.5),
        ("{{none}}", None),
        ("a {{none}} b", "a  b"),
        ("@{fetch.x}", 7),
        ("Bearer @{_secrets.KEY}", "Bearer <KEY>"),
        ("{{name}}: @{_secrets.KEY} and @{fetch.x} of @{_vars.n}", "Jo: <KEY> and 7 of 3"),
        ("{{evil}}", "@{_secrets.KEY} {{name}} @{fetch.x}"),
        ("{{evil}} but @{fetch.x}", "@{_secrets.KEY} {{name}} @{fetch.x} but 7"),
        (r"\{{name}} @{fetch.x}", "{{name}} 7"),
        (
            [1, None, True, 2.5, "{{total}}", ["@{fetch}"]],
            [1, None, True, 2.5, 12.5, [RESULTS["fetch"]]],
        ),
        (
            {"{{name}}": "@{fetch.x}", "@{fetch.x}": {"a": "@{_vars}"}},
            {"Jo": 7, "7": {"a": SCOPE["_vars"]}},
        ),
    ],
)
def test_in_two_steps_it_is_as_in_one(document: Any, rendered: Any) -> None:
    assert perform(bind(compile_document(document))) == rendered


def test_what_is_known_is_gone_and_what_is_not_is_kept() -> None:
    bound = bind(compile_document({"a": "{{name}} @{_secrets.KEY}", "b": "{{total}}"}))
    assert [str(one) for one in placeholders_of(bound)] == ["@{_secrets.KEY}"]
    assert "Jo" in json.dumps(encode_template(bound))
    assert bind(bound) == bound


def test_values_are_escaped_in_both_steps() -> None:
    text = '{"a": "{{evil}} @{fetch.text}", "b": @{fetch.text}, "c": {{total}}}'
    bound = bind(compile_text(text, TextFormat.JSON))
    assert json.loads(perform(bound)) == {
        "a": f'{PATHS["evil"]} say "hi"',
        "b": 'say "hi"',
        "c": 12.5,
    }
    html = bind(compile_text("<p>{{evil}}</p>@{fetch.text}", TextFormat.HTML))
    assert perform(html).endswith("</p>say &quot;hi&quot;")
    whole = bind(compile_text("{{total}}", TextFormat.JSON))
    assert perform(whole) == "12.5"


def test_what_nobody_knows_yet_cannot_be_rendered() -> None:
    look = leave_for_later(lookup_in(PATHS, SCOPE), is_later)
    with pytest.raises(TemplateValueError, match=r"@\{_secrets.KEY\} is not known yet"):
        TemplateRenderer(look).render(compile_text("a @{_secrets.KEY}"))
    assert repr(LATER) == "LATER"


def test_a_missing_value_can_be_an_error_when_it_is_bound() -> None:
    with pytest.raises(TemplateValueError, match="has no value"):
        TemplateRenderer(lambda _: MISSING, strict=True).bind(compile_text("a {{b}}"))


def test_what_is_bound_has_a_limited_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MAX_RENDERED_CHARS", 5)
    renderer = TemplateRenderer(lambda one: LATER if one.name == "x" else "abc")
    assert renderer.bind(compile_text("@{x}{{b}}")) == Template(
        (Placeholder(PlaceholderKind.SCOPE, "x"), "abc")
    )
    with pytest.raises(TemplateValueError, match="longer than 5"):
        renderer.bind(compile_text("{{b}}"))
    with pytest.raises(TemplateValueError, match="longer than 5"):
        TemplateRenderer(lambda _: "").render(BoundValue("abcdef"))


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(alphabet='{}@_"\\ab.'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
texts = st.lists(
    st.sampled_from(["{{a}}", "{{b}}", "@{fetch.x}", "@{_secrets.K}", "-", r"\{{", '"'])
).map("".join)


@given(st.recursive(texts, lambda inner: st.lists(inner, max_size=3), max_leaves=5), values, values)
def test_any_template_and_any_values(document: Any, now: Any, later: Any) -> None:
    template = compile_document(document)

    def look(placeholder: Placeholder) -> Any:
        return now if placeholder.kind is PlaceholderKind.PATH else later

    first = leave_for_later(look, lambda one: one.kind is PlaceholderKind.SCOPE)
    bound = TemplateRenderer(first).bind(template)
    stored = decode_template(json.loads(json.dumps(encode_template(bound))))
    assert all(one.kind is not PlaceholderKind.PATH for one in placeholders_of(stored))
    assert TemplateRenderer(look).render(stored) == TemplateRenderer(look).render(template)


@pytest.mark.parametrize(
    "document",
    [
        "text",
        [],
        {},
        {"text": 1, "format": "plain"},
        {"text": [1], "format": "plain"},
        {"text": [["path", "a"]], "format": "plain"},
        {"text": [["code", "a", False]], "format": "plain"},
        {"text": [], "format": "x"},
        {"map": [[{"list": []}, 1]]},
        {"list": 1},
    ],
)
def test_what_is_no_stored_template_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match=r"not a|is not a valid"):
        decode_template(document)
