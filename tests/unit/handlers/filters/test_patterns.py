"""Patterns of users: what they match, what is refused, and that none takes long."""

import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.expressions.semantics import EvaluationError
from handlers.filters.expressions import compile_expression
from handlers.filters.patterns import MAX_MATCH_BYTES, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "is_match"),
    [
        ("[a-z]+", "abc", True),
        ("[a-z]+", "abc ", False),
        ("b", "abc", False),
        ("", "", True),
        ("", "a", False),
        (r"\d{3}-\d{4}", "555-1234", True),
        ("(?i)ABC", "abc", True),
        ("é+.", "éé€", True),
        (".", "\n", False),
        ("(?s).", "\n", True),
        (".", "\ud800", True),
        ("a\x00b", "a\x00b", True),
    ],
)
def test_a_text_matches_as_a_whole(pattern: str, text: str, is_match: bool) -> None:
    assert compile_pattern(pattern)(text) is is_match


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(", r"missing \)"),
        ("(?=a)b", "invalid perl operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("a{1001}", "invalid repetition size"),
        ("x" * 501, "500 characters at most"),
        ("(?s).{1,1000}", "pattern too large"),
        ("[^a]{450}", "the pattern is too large: repeat fewer parts"),
        ("\ud800", "no lone surrogates"),
    ],
)
def test_what_is_no_pattern_says_why(pattern: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        compile_pattern(pattern)


def test_the_larger_the_pattern_the_shorter_the_text() -> None:
    with pytest.raises(ValueError, match=f"more than {MAX_MATCH_BYTES:,} bytes for this pattern"):
        compile_pattern("a*")("a" * (MAX_MATCH_BYTES + 1))
    large = compile_pattern("[ab]*a[ab]{900}b")
    assert large("b" * 50 + "a" + "ab" * 150) is False
    with pytest.raises(ValueError, match=r"a text of more than 3\d\d bytes for this pattern"):
        large("a" * 400)


def test_a_text_that_is_too_long_is_an_error_with_its_place() -> None:
    found = compile_expression("1 == 1 && REGEX(text, 'a*')")
    with pytest.raises(EvaluationError, match="character 16: a text of more than"):
        found.evaluate({"text": "a" * 10_000}.get, {})


@given(st.text(alphabet="ab.*+?()[]{}|^$0123\\", max_size=60), st.text("ab", max_size=2_000))
@settings(max_examples=300, deadline=None)
def test_any_pattern_is_refused_or_quick(pattern: str, text: str) -> None:
    try:
        matches = compile_pattern(pattern)
    except ValueError:
        return
    began = time.thread_time()
    with suppress(ValueError):
        matches(text)
    # Hundreds of times what it takes: a pattern that backtracks would take years.
    assert time.thread_time() - began < 0.5
