"""Renders templates with the values that their placeholders name, at once or step by step."""

from collections.abc import Callable, Mapping
from html import escape as escape_html
from typing import Any

import msgspec

from core.shared.json_path import MISSING, find
from core.templates.template import (
    BoundValue,
    DocumentTemplate,
    ListTemplate,
    MapTemplate,
    Placeholder,
    PlaceholderKind,
    Template,
    TextFormat,
)

MAX_RENDERED_CHARS = 1_048_576
"""Of all that one renderer fills in; numbers, lists and maps count as long as their JSON."""


class _Later:
    """A sentinel, as MISSING is."""

    def __repr__(self) -> str:
        return "LATER"


LATER = _Later()
Lookup = Callable[[Placeholder], Any]
"""Returns the value of a placeholder, MISSING, or LATER if somebody else knows it."""


class TemplateValueError(ValueError):
    """A template cannot be rendered with these values; the message says why."""


def lookup_in(paths: Mapping[str, Any], scope: Mapping[str, Any]) -> Lookup:
    """Look up data paths by their text, and the rest in the scope of an execution.

    A secret stays a placeholder: only whoever performs an action knows its value.
    """

    def look(placeholder: Placeholder) -> Any:
        if placeholder.kind is PlaceholderKind.PATH:
            return paths.get(placeholder.name, MISSING)
        if placeholder.kind is PlaceholderKind.SECRET:
            return str(placeholder)
        return find(scope, placeholder.name)

    return look


def leave_for_later(lookup: Lookup, is_later: Callable[[Placeholder], bool]) -> Lookup:
    """Look up what is known now; secrets, and what `is_later` says, are left to somebody else."""

    def look(placeholder: Placeholder) -> Any:
        is_secret = placeholder.kind is PlaceholderKind.SECRET
        return LATER if is_secret or is_later(placeholder) else lookup(placeholder)

    return look


class TemplateRenderer:
    """Renders documents and texts; together they have a limited length.

    A text that is one placeholder keeps the type of its value. Within other text a value becomes
    text: null and what is missing become nothing, lists and maps become JSON. With `strict`,
    nothing may be missing.
    """

    def __init__(self, lookup: Lookup, *, strict: bool = False) -> None:
        self._lookup = lookup
        self._strict = strict
        self._chars_left = MAX_RENDERED_CHARS

    def render(self, template: DocumentTemplate) -> Any:
        """Render a document; its lists and maps stay as they are.

        Raises:
            TemplateValueError: A value is missing, or the result is too long.
        """
        match template:
            case Template():
                return self.text(template)
            case BoundValue(value):
                return self._count(value)
            case ListTemplate(items):
                return [self.render(item) for item in items]
            case MapTemplate(items):
                return {to_text(self.render(name)): self.render(item) for name, item in items}
            case _:
                return template

    def bind(self, template: DocumentTemplate) -> DocumentTemplate:
        """Fill in what is known, and keep the placeholders of what is LATER.

        What was filled in is not looked at again, so a value cannot bring a placeholder with it.

        Raises:
            TemplateValueError: A value is missing, or the result is too long.
        """
        match template:
            case Template():
                return self._bind_text(template)
            case ListTemplate(items):
                return ListTemplate(tuple(map(self.bind, items)))
            case MapTemplate(items):
                return MapTemplate(
                    tuple((self._bind_name(name), self.bind(item)) for name, item in items)
                )
            case _:
                return template

    def _bind_name(self, name: Template | BoundValue) -> Template | BoundValue:
        return self._bind_text(name) if isinstance(name, Template) else name

    def _bind_text(self, template: Template) -> Template | BoundValue:
        format, parts = template.format, template.parts
        bound: list[str | Placeholder] = []
        for part in parts:
            value = part if isinstance(part, str) else self._look_up(part)
            if value is LATER:
                bound.append(part)
            elif len(parts) == 1 and format is TextFormat.PLAIN:
                return BoundValue(self._count(value))
            else:
                piece = part if isinstance(part, str) else _escape(value, part, format)
                bound.append(self._count(piece))
        if any(isinstance(part, Placeholder) for part in bound):
            return Template(tuple(bound), format)
        return BoundValue("".join(map(str, bound)))

    def text(self, template: Template) -> Any:
        """Render one text.

        Raises:
            TemplateValueError: A value is missing, or the result is too long.
        """
        parts = template.parts
        if len(parts) == 1 and template.format is TextFormat.PLAIN:
            only = parts[0]
            return self._count(only if isinstance(only, str) else self._value(only))
        return "".join(self._count(self._piece(part, template.format)) for part in parts)

    def _piece(self, part: str | Placeholder, format: TextFormat) -> str:
        if isinstance(part, str):
            return part
        return _escape(self._value(part), part, format)

    def _value(self, placeholder: Placeholder) -> Any:
        value = self._look_up(placeholder)
        if value is LATER:
            raise TemplateValueError(f"{placeholder} is not known yet")
        return value

    def _look_up(self, placeholder: Placeholder) -> Any:
        value = self._lookup(placeholder)
        if value is not MISSING:
            return value
        if self._strict:
            raise TemplateValueError(f"{placeholder} has no value")
        return None

    def _count(self, piece: Any) -> Any:
        self._chars_left -= len(piece if isinstance(piece, str) else _encode(piece))
        if self._chars_left < 0:
            raise TemplateValueError(
                f"what is rendered is longer than {MAX_RENDERED_CHARS:,} characters: use fewer "
                "placeholders, or such with shorter values"
            )
        return piece


def to_text(value: Any) -> str:
    """Return a value as it stands within other text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else _encode(value)


def _escape(value: Any, placeholder: Placeholder, format: TextFormat) -> str:
    """Return a value as it stands in a text at the place of a placeholder."""
    if format is TextFormat.HTML:
        return escape_html(to_text(value))
    if format is TextFormat.JSON:
        return _encode(to_text(value))[1:-1] if placeholder.in_string else _encode(value)
    return to_text(value)


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()
