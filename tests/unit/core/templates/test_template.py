"""Templates: compiled once, rendered with values, nothing executed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.templates import rendering
from core.templates.rendering import TemplateRenderer, TemplateValueError, lookup_in
from core.templates.template import (
    MAX_PLACEHOLDERS,
    MAX_TEMPLATE_CHARS,
    InvalidTemplateError,
    Placeholder,
    PlaceholderKind,
    TextFormat,
    compile_document,
    compile_text,
    placeholders_of,
)

PATHS = {"name": "Jo", "order_id.customer_id.email": "jo@example.com", "total": 12.5, "tags": ["a"]}
SCOPE = {
    "_vars": {"count": 3, "who": None},
    "_now": "2026-01-01T00:00:00Z",
    "fetch": {"items": [7]},
}


def render(document: Any, *, strict: bool = False) -> Any:
    renderer = TemplateRenderer(lookup_in(PATHS, SCOPE), strict=strict)
    return renderer.render(compile_document(document))


def render_as(text: str, format: TextFormat, **paths: Any) -> Any:
    return TemplateRenderer(lookup_in(paths, {})).text(compile_text(text, format))


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("", ""),
        ("no placeholders { } @ } \\", "no placeholders { } @ } \\"),
        ("Hello {{name}}!", "Hello Jo!"),
        ("{{ name }} has @{_vars.count}", "Jo has 3"),
        ("mail {{order_id.customer_id.email}}", "mail jo@example.com"),
        ("{{missing}} and @{_vars.who} are nothing", " and  are nothing"),
        ("tags {{tags}}", 'tags ["a"]'),
        ("@{fetch.items[0]} at @{_now()}", "7 at 2026-01-01T00:00:00Z"),
        (r"\{{name}} and \@{_vars.count}", "{{name}} and @{_vars.count}"),
        (r"\\{{name}}", r"\{{name}}"),
        ("{{name}}{{name}}", "JoJo"),
        ("key @{_secrets.API_KEY}", "key @{_secrets.API_KEY}"),
        ("@{_uuid()} is unknown here", " is unknown here"),
    ],
)
def test_within_text_a_value_becomes_text(template: str, rendered: str) -> None:
    assert render(template) == rendered


@pytest.mark.parametrize(
    ("template", "value"),
    [("{{total}}", 12.5), ("{{tags}}", ["a"]), ("@{fetch}", {"items": [7]}), ("{{missing}}", None)],
)
def test_a_placeholder_alone_keeps_its_type(template: str, value: object) -> None:
    assert render(template) == value


def test_lists_and_maps_are_rendered_recursively_with_their_names() -> None:
    template = {"{{name}}": ["{{total}}", {"n": "@{_vars.count} x"}], "kept": [1, None, True, 2.5]}
    assert render(template) == {"Jo": [12.5, {"n": "3 x"}], "kept": [1, None, True, 2.5]}
    names = [str(one) for one in placeholders_of(compile_document(template))]
    assert names == ["{{name}}", "{{total}}", "@{_vars.count}"]


def test_a_missing_value_can_be_an_error() -> None:
    with pytest.raises(TemplateValueError, match=r"\{\{missing\}\} has no value"):
        render("a {{missing}}", strict=True)
    assert render("@{_vars.who}", strict=True) is None


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{", r"character 1: \{\{ is not closed"),
        ("ab @{x", r"character 4: @\{ is not closed: close it, or write \\@\{"),
        ("{{a}", "character 1: .* is not closed"),
        ("{{}}", "character 1: segment 1 is empty"),
        ("{{a b}}", "character 1: segment 1: 'a b' is not a field name"),
        ("@{}", r"character 1: @\{\} does not name a value"),
        ("@{a..b}", "does not name a value"),
        ("@{_secrets}", "does not name a value"),
        ("@{_secrets.a.b}", "does not name a value"),
        ("@{_exit()}", r"there is no function _exit\(\): there are _now\(\) and _uuid\(\)"),
        ("@{__import__('os')}", "does not name a value"),
        ("x" * (MAX_TEMPLATE_CHARS + 1), "characters at most"),
        ("{{a}}" * (MAX_PLACEHOLDERS + 1), "placeholders at most"),
    ],
)
def test_what_is_no_template_says_where(template: str, says: str) -> None:
    with pytest.raises(InvalidTemplateError, match=says):
        compile_text(template)


def test_a_document_has_limited_depth_and_is_json() -> None:
    deep: Any = "x"
    for _ in range(33):
        deep = [deep]
    with pytest.raises(InvalidTemplateError, match="32 levels at most"):
        compile_document(deep)
    with pytest.raises(InvalidTemplateError, match="is JSON, not set"):
        compile_document({"a": {1}})


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (["{{a}}"] * (MAX_PLACEHOLDERS + 1), "1,000 placeholders at most"),
        ({f"@{{a{n}}}": "@{b}" for n in range(MAX_PLACEHOLDERS)}, "1,000 placeholders at most"),
        ([["x" * MAX_TEMPLATE_CHARS], "y"], "262,144 characters at most"),
    ],
)
def test_the_texts_of_a_document_are_limited_together(document: Any, says: str) -> None:
    with pytest.raises(InvalidTemplateError, match=says):
        compile_document(document)


def test_as_many_placeholders_as_allowed_are_compiled() -> None:
    found = compile_document(["{{a}}" * 500, {"@{b}": ["@{c}"] * 499}])
    assert sum(1 for _ in placeholders_of(found)) == MAX_PLACEHOLDERS


def test_values_that_are_no_texts_count_as_long_as_their_json() -> None:
    large = {"a": [0] * 250_000}
    renderer = TemplateRenderer(lookup_in({}, large))
    assert renderer.render(compile_document(["@{a}", "@{a}"])) == [large["a"]] * 2
    with pytest.raises(TemplateValueError, match="longer than 1,048,576 characters: use fewer"):
        renderer.render(compile_text("@{a}"))
    with pytest.raises(TemplateValueError, match="longer than 1,048,576"):
        TemplateRenderer(lookup_in({}, large)).bind(compile_document(["@{a}"] * 3))


def test_numbers_of_any_length_are_rendered() -> None:
    digits = 10**400
    assert render_as("{{n}}", TextFormat.PLAIN, n=digits) == digits
    assert render_as("n {{n}}", TextFormat.PLAIN, n=[digits]) == f"n [{digits}]"


def test_what_is_rendered_has_a_limited_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MAX_RENDERED_CHARS", 10)
    assert render(["{{name}}{{name}}", "123456"]) == ["JoJo", "123456"]
    with pytest.raises(TemplateValueError, match="longer than 10 characters"):
        render(["{{name}}{{name}}", "1234567"])


def test_html_is_escaped() -> None:
    assert render_as("<p>{{name}}</p>", TextFormat.HTML, name="<b>&\"'") == (
        "<p>&lt;b&gt;&amp;&quot;&#x27;</p>"
    )
    assert render_as("{{name}}", TextFormat.HTML, name="<") == "&lt;"


def test_json_text_marks_the_placeholders_in_strings() -> None:
    template = compile_text(r'{"a": "x\"{{p}}", "b": {{q}}, "c\\": "{{r}}"}', TextFormat.JSON)
    assert list(placeholders_of(template)) == [
        Placeholder(PlaceholderKind.PATH, "p", in_string=True),
        Placeholder(PlaceholderKind.PATH, "q"),
        Placeholder(PlaceholderKind.PATH, "r", in_string=True),
    ]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(values, st.text())
def test_json_text_stays_json_whatever_the_values_are(value: Any, text: str) -> None:
    template = r'{"whole": {{a}}, "in \"a\" string": "<{{b}}>", "list": [{{a}}, {{b}}]}'
    rendered = json.loads(render_as(template, TextFormat.JSON, a=value, b=text))
    assert rendered == {"whole": value, 'in "a" string': f"<{text}>", "list": [value, text]}


@given(st.text(alphabet="{}@\\ab._", max_size=30))
def test_any_text_is_a_template_or_refused(text: str) -> None:
    try:
        template = compile_text(text)
    except InvalidTemplateError:
        return
    assert isinstance(TemplateRenderer(str).text(template), str)


@given(st.text(alphabet='{}@\\ab._"', max_size=30))
def test_placeholders_in_values_are_not_rendered(value: str) -> None:
    assert render_as("<{{name}}>", TextFormat.PLAIN, name=value) == f"<{value}>"


def test_a_placeholder_reads_as_it_was_written() -> None:
    text = "{{a.b}}@{c.d}@{_now()}@{_secrets.KEY}"
    assert "".join(map(str, compile_text(text).parts)) == text
