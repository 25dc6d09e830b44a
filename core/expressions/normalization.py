"""Brings the forms that people write into CEL: `=`, `<>`, TRUE, functions in any case."""

import re
from typing import NamedTuple

FUNCTIONS = frozenset(
    {
        "TODAY", "NOW", "ISBLANK", "BLANKVALUE", "IF", "AND", "OR", "NOT", "LEN", "CONTAINS",
        "UPPER", "LOWER", "TRIM", "TEXT", "VALUE", "ROUND", "ABS", "MAX", "MIN", "REGEX",
        "DATEDIFF",
    }
)  # fmt: skip
_LITERALS = frozenset({"TRUE", "FALSE", "NULL"})

_TOKEN = re.compile(
    r"""
      (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    | (?P<word>(?<![\w.])[A-Za-z_]\w*)(?P<call>\s*\()?
    | (?P<unequal><>)
    | (?P<equal>(?<![=!<>])=(?!=))
    """,
    re.VERBOSE | re.DOTALL,
)


class NormalizedText(NamedTuple):
    """CEL, and where each inserted character stands, to find positions in the text as written."""

    text: str
    inserted: tuple[int, ...]

    def original(self, at: int) -> int:
        """Return the position in the text as written of a position in the CEL text."""
        return at - sum(1 for one in self.inserted if one < at)


def normalize(text: str) -> NormalizedText:
    """Rewrite an expression into CEL; only `=` makes the text longer."""
    inserted: list[int] = []

    def rewrite(token: re.Match[str]) -> str:
        if token["unequal"]:
            return "!="
        if token["equal"]:
            inserted.append(token.start() + len(inserted) + 1)
            return "=="
        word = token["word"]
        if word is None:
            return token[0]
        if token["call"]:
            name = word.upper() if word.upper() in FUNCTIONS else word
            return f"{name}{token['call']}"
        return word.lower() if word.upper() in _LITERALS else word

    return NormalizedText(_TOKEN.sub(rewrite, text), tuple(inserted))
