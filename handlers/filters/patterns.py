"""Patterns of users, matched by RE2: in time linear in the text, whatever the pattern is."""

from functools import lru_cache

import re2

MAX_PATTERN_CHARS = 500
MAX_MATCH_STEPS = 350_000
"""The size of a pattern's program times the bytes of a text: 5 nanoseconds each, at worst."""
MAX_MATCH_BYTES = 2_048
_MIN_MATCH_BYTES = 100
_STEPS_PER_BYTE = 8
"""What a byte takes beside the parts of the pattern that are tried on it."""
_PATTERN_MEMORY = 128 * 1024
"""With more, RE2 keeps to its fast way longer, and its worst case takes five times as long."""
_COMPILED_PATTERNS = 1_000


class TextPattern:
    """A pattern that a text has to match as a whole.

    The larger the pattern, the shorter are the texts that it can be matched with.
    """

    __slots__ = ("_fullmatch", "max_bytes", "steps")

    def __init__(self, pattern: str) -> None:
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = _PATTERN_MEMORY
        # As bytes: for texts the library would count characters up to the end of each match.
        compiled = re2.compile(pattern.encode(), options)
        size = compiled.programsize + _STEPS_PER_BYTE
        self.max_bytes = min(MAX_MATCH_BYTES, MAX_MATCH_STEPS // size)
        self.steps = size * self.max_bytes
        self._fullmatch = compiled.fullmatch

    def __call__(self, text: str) -> bool:
        """Return whether a text matches.

        Raises:
            ValueError: The text is too long for the pattern.
        """
        given = text.encode("utf-8", "replace")
        if len(given) > self.max_bytes:
            raise ValueError(f"a text of more than {self.max_bytes:,} bytes for this pattern")
        return self._fullmatch(given) is not None


@lru_cache(_COMPILED_PATTERNS)
def compile_pattern(pattern: str) -> TextPattern:
    """Compile a pattern.

    Raises:
        ValueError: It is no pattern, or too large.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ValueError(f"a pattern has {MAX_PATTERN_CHARS} characters at most")
    try:
        compiled = TextPattern(pattern)
    except re2.error as error:
        raise ValueError(_sentence(error)) from None
    except UnicodeEncodeError:
        raise ValueError("a pattern holds no lone surrogates") from None
    if compiled.max_bytes < _MIN_MATCH_BYTES:
        raise ValueError("the pattern is too large: repeat fewer parts, or less often")
    return compiled


def _sentence(error: Exception) -> str:
    """Return what RE2 says; it speaks in bytes."""
    said = error.args[0]
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
