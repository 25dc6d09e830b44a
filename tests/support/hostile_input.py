"""Input that nobody in his right mind sends: raw bytes, and documents that are nearly right."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

# What has hurt somebody before: ends of strings, halves of characters, ends of number ranges.
ODD_TEXTS = st.sampled_from(
    [
        "",
        " ",
        "\x00",
        "a\x00b",
        "text/pl\x00ain",
        "\ud800",
        "\udfff\ud800",
        "a\nb",
        "\x7f\x85",
        "\u202e",
        "\ufeff",
        "é\U0001f600",
        "a" * 300,
        "[" * 200,
        "a.b[999999999999]",
        "__class__",
        "constructor",
        "1e400",
        "NaN",
        "../..",
        "%00",
        "*",
    ]
)
TEXTS = ODD_TEXTS | st.text(st.characters(), max_size=40)
NUMBERS = (
    st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from([0, -1, 2**31, 2**63, 2**64, 1e308, 5e-324])
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
RAW = st.binary(max_size=200)
"""Bytes by themselves."""


def as_json(value: Any) -> bytes:
    """JSON as a careless sender writes it: lone surrogates, NaN and all."""
    return json.dumps(value).encode("utf-8", "surrogatepass")


def nearly(valid: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A document of which most is right: some members are odd, gone, or somebody else's."""

    def spoil(change: tuple[dict[str, Any], set[str], dict[str, Any]]) -> dict[str, Any]:
        changed, removed, added = change
        return {k: v for k, v in {**valid, **changed}.items() if k not in removed} | added

    names = st.sampled_from(sorted(valid))
    return st.tuples(
        st.dictionaries(names, VALUES, max_size=2),
        st.sets(names, max_size=1) | st.just(set()),
        st.dictionaries(TEXTS, VALUES, max_size=1) | st.just({}),
    ).map(spoil)


@st.composite
def damaged(draw: Callable[[Any], Any], whole: bytes) -> bytes:
    """These bytes with some of them cut out, put in or said twice."""
    at, to = sorted((draw(st.integers(0, len(whole))), draw(st.integers(0, len(whole)))))
    match draw(st.sampled_from(["cut", "insert", "twice", "end"])):
        case "cut":
            return whole[:at] + whole[to:]
        case "insert":
            return whole[:at] + draw(st.binary(max_size=8)) + whole[at:]
        case "twice":
            return whole[:to] + whole[at:]
        case _:
            return whole[:at]


def is_storable(text: str | None) -> bool:
    """Whether a column of type text can hold it."""
    if text is None:
        return True
    try:
        return b"\x00" not in text.encode()
    except UnicodeEncodeError:
        return False
