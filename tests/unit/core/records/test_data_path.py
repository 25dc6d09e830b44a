"""Data paths: text and JSON in, segments out, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.records.data_path import (
    MAX_HOPS,
    MAX_PATH_CHARS,
    DataPathSegment,
    InvalidDataPathError,
    SegmentType,
    parse_data_path,
    parse_segments,
)

FIELD, HOP, SCRIPT = SegmentType.FIELD, SegmentType.RELATIONSHIP, SegmentType.SCRIPT


def test_a_single_segment_is_a_field() -> None:
    path = parse_data_path("email")
    assert path.segments == (DataPathSegment("email", FIELD),)
    assert (path.terminal.field_name, path.relationships) == ("email", ())


def test_all_but_the_last_segment_are_relationships() -> None:
    path = parse_data_path(" order_id . customer_id.email ")
    assert [one.type for one in path.segments] == [HOP, HOP, FIELD]
    assert [one.field_name for one in path.relationships] == ["order_id", "customer_id"]
    assert str(path) == "order_id.customer_id.email"


def test_a_script_ends_the_relationships() -> None:
    path = parse_data_path("customer_id.SCRIPT[credit-check].result.score")
    assert path.segments == (
        DataPathSegment("customer_id", HOP),
        DataPathSegment("result", SCRIPT, "credit-check"),
        DataPathSegment("score", FIELD),
    )
    assert path.has_script
    assert not parse_data_path("customer_id.email").has_script
    assert str(path) == "customer_id.SCRIPT[credit-check].result.score"


def test_the_json_form_is_the_same_path() -> None:
    script = {"type": "SCRIPT", "scriptId": "credit-check", "outputField": "score"}
    path = parse_segments(["customer_id", script])
    assert path == parse_data_path("customer_id.SCRIPT[credit-check].score")


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("", "segment 1 is empty"),
        ("a..b", "segment 2 is empty"),
        ("a.", "segment 2 is empty"),
        ("a b", "segment 1: 'a b' is not a field name"),
        ("1a", "segment 1: '1a' is not a field name"),
        ("a.b-c", "segment 2: 'b-c' is not a field name"),
        ("a.\u0000", r"segment 2: '\\x00' is not a field name"),
        ("SCRIPT[x]", "SCRIPT[x] needs the field of its result behind it"),
        ("SCRIPT[x].SCRIPT[y].z", r"segment 2: 'SCRIPT\[y\]' is not a field name"),
        ("SCRIPT[].z", r"segment 1: 'SCRIPT\[\]' is not a field name"),
        (".".join("a" * (MAX_HOPS + 2)), f"{MAX_HOPS} hops at most; this one has {MAX_HOPS + 1}"),
        ("a" * (MAX_PATH_CHARS + 1), f"{MAX_PATH_CHARS} characters at most"),
    ],
)
def test_what_is_no_path_says_where(expression: str, says: str) -> None:
    with pytest.raises(InvalidDataPathError, match=says.replace("SCRIPT[x] n", r"SCRIPT\[x\] n")):
        parse_data_path(expression)


def test_ten_hops_are_a_path() -> None:
    assert len(parse_data_path(".".join("a" * (MAX_HOPS + 1))).relationships) == MAX_HOPS


@pytest.mark.parametrize(
    ("segments", "says"),
    [
        ([], "at least one segment"),
        (["a", 1], "segment 2: expected a field name, or type SCRIPT"),
        ([{"type": "SCRIPT", "scriptId": "x"}], "segment 1: expected a field name"),
        (
            [{"type": "SCRIPT", "scriptId": "x", "outputField": "y", "more": 1}],
            "segment 1: expected a field name",
        ),
        ([{"type": "SCRIPT", "scriptId": "x]y", "outputField": "y"}], "not the id of a script"),
        ([{"type": "SCRIPT", "scriptId": "x", "outputField": ""}], "segment 1 is empty"),
    ],
)
def test_what_is_no_path_in_json_says_where(segments: list[object], says: str) -> None:
    with pytest.raises(InvalidDataPathError, match=says):
        parse_segments(segments)


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True)
scripts = st.builds("SCRIPT[{}].{}".format, st.from_regex("[a-z-]{1,5}", fullmatch=True), names)


@given(st.lists(names | scripts, min_size=1, max_size=MAX_HOPS + 1))
def test_parsing_and_formatting_are_inverse(parts: list[str]) -> None:
    expression = ".".join(parts)
    path = parse_data_path(expression)
    assert str(path) == expression
    assert parse_data_path(str(path)) == path


@given(st.text(max_size=40))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    try:
        path = parse_data_path(text)
    except InvalidDataPathError:
        return
    assert parse_data_path(str(path)) == path
