"""Codes, patterns and versions; and every step in the life of a type, allowed or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.events.event_type import (
    CODE_LENGTH,
    MAX_VERSIONS,
    EventTypeCode,
    EventTypeLifecycle,
    EventTypeRefusal,
    StatusChanges,
    TypeStatus,
    Validation,
    Version,
    VersionStatus,
    deprecate,
    finalise,
    is_binding,
    is_pattern,
    parse_code,
    parse_version,
    refuse_archive,
    refuse_delete,
    refuse_rewrite,
    refuse_version,
    versions_to_check,
)

V10, V11, V20 = Version(1, 0), Version(1, 1), Version(2, 0)
DRAFT, CURRENT, OLD = VersionStatus.FINALISING, VersionStatus.CURRENT, VersionStatus.DEPRECATED
ARCHIVED = TypeStatus.ARCHIVED

segments = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)


def life(
    versions: StatusChanges | None = None, status: TypeStatus = TypeStatus.CURRENT
) -> EventTypeLifecycle:
    return EventTypeLifecycle(status, versions or {})


# Codes and patterns


@given(st.tuples(segments, segments, segments, segments))
def test_a_code_is_its_four_segments(parts: tuple[str, str, str, str]) -> None:
    code = EventTypeCode(*parts)
    assert parse_code(str(code)) == code


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a:b:c",
        "a:b:c:d:e",
        "a:b::d",
        "A:b:c:d",
        "1a:b:c:d",
        "-a:b:c:d",
        "a:b:c:d\n",
        "a:b:c:*",
        "a:b:c:d_e",
        "á:b:c:d",
        "a:b:c:" + "d" * CODE_LENGTH,
    ],
)
def test_what_is_no_code(text: str) -> None:
    assert parse_code(text) is None


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("a:b:c:d", True),
        ("*:b:*:d", True),
        ("a:b:c", False),
        ("a:b:c:**", False),
        ("a:b:c:d*", False),
        ("a:b:c:D", False),
        ("a:b:c:" + "d" * CODE_LENGTH, False),
    ],
)
def test_what_a_pattern_may_be(text: str, valid: bool) -> None:
    assert is_pattern(text) is valid


# Versions


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.0", V10),
        ("0.0", Version(0, 0)),
        ("01.00", V10),
        ("999999999.999999999", Version(999_999_999, 999_999_999)),
        ("1", None),
        ("1.0.0", None),
        ("v1.0", None),
        ("1.0\n", None),
        ("-1.0", None),
        ("1.x", None),
        ("1.1234567890", None),
        ("\u0661.\u0660", None),  # digits, yet of another script
    ],
)
def test_versions_are_two_numbers(text: str, version: Version | None) -> None:
    assert parse_version(text) == version


def test_versions_are_ordered_as_numbers_and_shown_as_they_are_written() -> None:
    assert sorted([Version(1, 10), Version(2, 0), Version(1, 9)])[0] == Version(1, 9)
    assert str(Version(1, 10)) == "1.10"


# The life of a type


def test_a_version_is_added_once_and_never_to_an_archived_type() -> None:
    assert refuse_version(life({V10: CURRENT}), V11) is None
    assert refuse_version(life({V10: CURRENT}), V10) is EventTypeRefusal.VERSION_EXISTS
    assert refuse_version(life(status=ARCHIVED), V10) is EventTypeRefusal.INVALID_STATUS
    many = {Version(1, minor): OLD for minor in range(MAX_VERSIONS)}
    assert refuse_version(life(many), V20) is EventTypeRefusal.TOO_MANY_VERSIONS


def test_a_schema_changes_only_while_its_version_is_not_final() -> None:
    assert refuse_rewrite(life({V10: DRAFT}), V10) is None
    assert refuse_rewrite(life({V10: CURRENT}), V10) is EventTypeRefusal.INVALID_STATUS
    assert refuse_rewrite(life(), V10) is EventTypeRefusal.VERSION_NOT_FOUND


def test_a_final_version_takes_the_place_of_the_one_before_in_its_major() -> None:
    stands = life({V10: CURRENT, V11: DRAFT, V20: CURRENT, Version(1, 2): DRAFT})
    assert finalise(stands, V11) == {V10: OLD, V11: CURRENT}
    assert finalise(life({V20: DRAFT}), V20) == {V20: CURRENT}


def test_only_a_draft_becomes_final() -> None:
    assert finalise(life({V10: CURRENT}), V10) is EventTypeRefusal.INVALID_STATUS
    assert finalise(life({V10: OLD}), V10) is EventTypeRefusal.INVALID_STATUS
    assert finalise(life({V10: OLD}), V11) is EventTypeRefusal.VERSION_NOT_FOUND


def test_only_a_current_version_is_deprecated() -> None:
    assert deprecate(life({V10: CURRENT}), V10) == {V10: OLD}
    assert deprecate(life({V10: DRAFT}), V10) is EventTypeRefusal.CANNOT_DEPRECATE_FINALISING
    assert deprecate(life({V10: OLD}), V10) is EventTypeRefusal.ALREADY_DEPRECATED
    assert deprecate(life(), V10) is EventTypeRefusal.VERSION_NOT_FOUND


def test_a_type_is_archived_when_no_version_is_needed_any_more() -> None:
    assert refuse_archive(life()) is None
    assert refuse_archive(life({V10: OLD, V11: OLD})) is None
    assert (
        refuse_archive(life({V10: OLD, V11: CURRENT})) is EventTypeRefusal.VERSIONS_NOT_DEPRECATED
    )
    assert refuse_archive(life({V10: DRAFT})) is EventTypeRefusal.VERSIONS_NOT_DEPRECATED
    assert refuse_archive(life({V10: OLD}, ARCHIVED)) is EventTypeRefusal.ALREADY_ARCHIVED


def test_a_type_is_deleted_when_nobody_can_have_relied_on_it() -> None:
    assert refuse_delete(life()) is None
    assert refuse_delete(life({V10: DRAFT})) is None
    assert refuse_delete(life({V10: OLD}, ARCHIVED)) is None
    assert refuse_delete(life({V10: OLD})) is EventTypeRefusal.CANNOT_DELETE
    assert refuse_delete(life({V10: DRAFT, V11: CURRENT})) is EventTypeRefusal.CANNOT_DELETE


# What events are held against


def test_an_event_is_held_against_what_it_names_else_against_what_is_in_force() -> None:
    stands = life({V10: OLD, V11: CURRENT, V20: CURRENT, Version(2, 1): DRAFT})
    assert versions_to_check(stands, None) == (V20, V11)
    assert versions_to_check(stands, V10) == (V10,)
    assert versions_to_check(stands, Version(3, 0)) == ()
    assert versions_to_check(life({V10: DRAFT}), None) == ()


def test_a_draft_or_a_mild_type_refuses_nothing() -> None:
    assert is_binding(Validation.ENFORCE, CURRENT)
    assert is_binding(Validation.ENFORCE, OLD)
    assert is_binding(Validation.ENFORCE, None)
    assert not is_binding(Validation.ENFORCE, DRAFT)
    assert not is_binding(Validation.WARN, CURRENT)
    assert not is_binding(Validation.OFF, CURRENT)
