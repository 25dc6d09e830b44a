"""Estimates the worst-case cost of checking one byte of a payload against a JSON Schema.

A short schema can take years to check: definitions that use each other twice double the work with
each step. So the tree that a schema unfolds to is weighed first. One unit is about half a
nanosecond.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

_KEYWORD = 16
_MEMBER = 2
_REGEX_FORMAT = 100_000
_MOST = 10**9

# Keywords that check the same value against further schemas.
_ALSO = ("not", "if", "then", "else")
_ALSO_EACH = ("allOf", "anyOf", "oneOf")
_ALSO_BY_NAME = ("dependentSchemas", "dependencies")
# Keywords that check the contents of the value against schemas.
_WITHIN = (
    "items",
    "additionalItems",
    "additionalProperties",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_LISTS = ("enum", "required")
_TWICE = ("unevaluatedItems", "unevaluatedProperties")
_ELSEWHERE = ("$dynamicRef", "$recursiveRef")
_REPEAT = re.compile(r"\{(\d+)(?:,(\d*))?\}")


class _UnboundedError(Exception):
    """The schema refers to itself, or to a place that is not followed."""


def estimate_cost(schema: Any) -> int | None:
    """Return the cost, or None if no bound is known."""
    try:
        return min(_Scales(schema).weight(schema), _MOST)
    except (_UnboundedError, RecursionError):
        return None


class _Scales:
    """Weighs each part once, however many references lead to it."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[int, int] = {}
        self._open: set[int] = set()

    def weight(self, schema: Any) -> int:
        if not isinstance(schema, dict):
            return _KEYWORD
        place = id(schema)
        if place in self._open or (schema is not self._root and "$id" in schema):
            raise _UnboundedError
        if place not in self._known:
            self._open.add(place)
            self._known[place] = self._weigh(schema)
            self._open.remove(place)
        return self._known[place]

    def _weigh(self, schema: dict[str, Any]) -> int:
        if any(word in schema for word in _ELSEWHERE):
            raise _UnboundedError
        own = _KEYWORD * (1 + len(schema))
        own += sum(_MEMBER * len(schema[w]) for w in _LISTS if isinstance(schema.get(w), list))
        own += pattern_cost(schema.get("pattern"))
        if schema.get("format") == "regex":
            own += _REGEX_FORMAT
        total = own + sum(map(self.weight, self._also(schema))) + self._within(schema)
        # Finding out what was evaluated takes a second evaluation.
        return total * 2 if any(word in schema for word in _TWICE) else total

    def _also(self, schema: dict[str, Any]) -> Iterator[Any]:
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield self._find(reference)
        yield from (schema[word] for word in _ALSO if word in schema)
        for word in _ALSO_EACH:
            yield from _members(schema.get(word))
        for word in _ALSO_BY_NAME:
            yield from _members(schema.get(word))

    def _within(self, schema: dict[str, Any]) -> int:
        """Weigh what a value contains: one property or item, and all the rest together."""
        total = 0
        for word in ("properties", "prefixItems"):
            total += max(map(self.weight, _members(schema.get(word))), default=0)
        for word in _WITHIN:
            inner = schema.get(word)
            if isinstance(inner, list):
                total += max(map(self.weight, inner), default=0)
            elif inner is not None:
                total += self.weight(inner)
        patterns = schema.get("patternProperties")
        if isinstance(patterns, dict):
            total += sum(pattern_cost(p) + self.weight(s) for p, s in patterns.items())
        return total

    def _find(self, reference: str) -> Any:
        if not reference.startswith("#") or (reference != "#" and reference[1] != "/"):
            raise _UnboundedError
        found = self._root
        for raw in unquote(reference).split("/")[1:]:
            step = raw.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and step in found:
                found = found[step]
            elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
                found = found[int(step)]
            else:
                raise _UnboundedError
        return found


def pattern_cost(pattern: Any) -> int:
    """Estimate the cost of a regular expression: its length times all its repetitions."""
    if not isinstance(pattern, str):
        return 0
    weight = len(pattern)
    for least, most in _REPEAT.findall(pattern):
        weight *= max(1, int((most or least)[:9]))
        if weight > _MOST:
            break
    return weight // _KEYWORD + 1


def _members(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
