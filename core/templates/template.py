r"""Templates: text with placeholders, compiled once and rendered often.

`{{order_id.customer_id.email}}` is a data path of the record, `@{_vars.total}` a value of the
execution. `\{{` and `\@{` stand for the characters themselves. Templates hold no code: a
placeholder names a value.
"""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from core.records.data_path import parse_data_path

MAX_TEMPLATE_CHARS = 262_144
MAX_PLACEHOLDERS = 1_000
"""Of all texts of a document together: each may bring a value, or a data path to follow."""
MAX_TEMPLATE_DEPTH = 32
SECRETS = "_secrets"
FUNCTIONS = ("_now", "_uuid")

# Backslashes right before an opening escape it, and each other.
_TOKEN = re.compile(r"\\(\\*(?:\{\{|@\{))|\{\{([^{}]*)\}\}|@\{([^{}]*)\}|(\{\{|@\{)")
_CALL = re.compile(r"(_[a-z]+)\(\)")
_SCOPE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+|\[[0-9]{1,9}\])*")
_SECRET = re.compile(rf"{SECRETS}\.([A-Za-z_][A-Za-z0-9_-]{{0,99}})")


class InvalidTemplateError(ValueError):
    """The text is no template; the message says where and why."""


class PlaceholderKind(StrEnum):
    PATH = "path"
    SCOPE = "scope"
    FUNCTION = "function"
    SECRET = "secret"  # noqa: S105  a kind of placeholder, not a secret


_WRITTEN = {
    PlaceholderKind.PATH: "{{{{{}}}}}",
    PlaceholderKind.SCOPE: "@{{{}}}",
    PlaceholderKind.FUNCTION: "@{{{}()}}",
    PlaceholderKind.SECRET: f"@{{{{{SECRETS}.{{}}}}}}",
}


class Placeholder(NamedTuple):
    """The name of a value: a data path, a path into the scope, a function or a secret."""

    kind: PlaceholderKind
    name: str
    in_string: bool = False
    """Whether it stands within a string literal of JSON text."""

    def __str__(self) -> str:
        return _WRITTEN[self.kind].format(self.name)


class TextFormat(StrEnum):
    """What a text is, which says how values are escaped in it."""

    PLAIN = "plain"
    JSON = "json"
    HTML = "html"


class Template(NamedTuple):
    """The compiled form of one text."""

    parts: tuple[str | Placeholder, ...]
    format: TextFormat = TextFormat.PLAIN


class BoundValue(NamedTuple):
    """A value that was filled in before; placeholders in its texts are mere text."""

    value: Any


class MapTemplate(NamedTuple):
    """The compiled form of a map; its names are templates, too."""

    items: tuple[tuple[Template | BoundValue, "DocumentTemplate"], ...]


class ListTemplate(NamedTuple):
    items: tuple["DocumentTemplate", ...]


DocumentTemplate: TypeAlias = (
    Template | BoundValue | MapTemplate | ListTemplate | int | float | bool | None
)


def compile_text(text: str, format: TextFormat = TextFormat.PLAIN) -> Template:
    """Compile one text.

    Raises:
        InvalidTemplateError: A placeholder is empty, unknown or not closed, or there are too many.
    """
    return _Compiler().text(text, format)


def compile_document(document: Any) -> DocumentTemplate:
    """Compile every text of a JSON document; together they are as large as one text may be.

    Raises:
        InvalidTemplateError: A text is no template, or the document is too large or too deep.
    """
    return _Compiler().document(document, MAX_TEMPLATE_DEPTH)


class _Compiler:
    """Compiles the texts of one template, and counts what they have together."""

    def __init__(self) -> None:
        self._chars_left = MAX_TEMPLATE_CHARS
        self._placeholders_left = MAX_PLACEHOLDERS

    def document(self, document: Any, depth: int) -> DocumentTemplate:
        match document:
            case str():
                return self.text(document)
            case dict() | list() if depth == 0:
                raise InvalidTemplateError(f"a template has {MAX_TEMPLATE_DEPTH} levels at most")
            case list():
                return ListTemplate(tuple(self.document(item, depth - 1) for item in document))
            case dict():
                return MapTemplate(
                    tuple(
                        (self.text(name), self.document(item, depth - 1))
                        for name, item in document.items()
                    )
                )
            case int() | float() | None:
                return document
            case _:
                raise InvalidTemplateError(f"a template is JSON, not {type(document).__name__}")

    def text(self, text: str, format: TextFormat = TextFormat.PLAIN) -> Template:
        self._chars_left -= len(text)
        if self._chars_left < 0:
            raise InvalidTemplateError(
                f"a template has {MAX_TEMPLATE_CHARS:,} characters at most: split it"
            )
        parts = tuple(map(self._counted, _parts(text)))
        return Template(tuple(_mark_strings(parts)) if format is TextFormat.JSON else parts, format)

    def _counted(self, part: str | Placeholder) -> str | Placeholder:
        self._placeholders_left -= isinstance(part, Placeholder)
        if self._placeholders_left < 0:
            raise InvalidTemplateError(
                f"a template has {MAX_PLACEHOLDERS:,} placeholders at most: split it"
            )
        return part


def placeholders_of(template: DocumentTemplate) -> Iterator[Placeholder]:
    """Iterate over the placeholders of a document, in its order."""
    match template:
        case Template(parts):
            yield from (part for part in parts if isinstance(part, Placeholder))
        case ListTemplate(items):
            for item in items:
                yield from placeholders_of(item)
        case MapTemplate(items):
            for name, item in items:
                yield from placeholders_of(name)
                yield from placeholders_of(item)
        case _:
            return


def _parts(text: str) -> Iterator[str | Placeholder]:
    literal, end = "", 0
    for token in _TOKEN.finditer(text):
        literal += text[end : token.start()]
        end = token.end()
        escaped, path, scope, unclosed = token.groups()
        if escaped is not None:
            literal += escaped
            continue
        if literal:
            yield literal
            literal = ""
        try:
            yield _placeholder(path, scope, unclosed)
        except ValueError as error:
            raise InvalidTemplateError(f"character {token.start() + 1}: {error}") from None
    if end < len(text) or literal:
        yield literal + text[end:]


def _placeholder(path: str | None, scope: str | None, unclosed: str | None) -> Placeholder:
    if unclosed is not None:
        raise ValueError(f"{unclosed} is not closed: close it, or write \\{unclosed}")
    if path is not None:
        return Placeholder(PlaceholderKind.PATH, str(parse_data_path(path)))
    name = (scope or "").strip()
    if call := _CALL.fullmatch(name):
        if call[1] not in FUNCTIONS:
            known = " and ".join(f"{function}()" for function in FUNCTIONS)
            raise ValueError(f"there is no function {name}: there are {known}")
        return Placeholder(PlaceholderKind.FUNCTION, call[1])
    if secret := _SECRET.fullmatch(name):
        return Placeholder(PlaceholderKind.SECRET, secret[1])
    if not _SCOPE.fullmatch(name) or name.startswith(SECRETS):
        raise ValueError(f"@{{{name[:100]}}} does not name a value")
    return Placeholder(PlaceholderKind.SCOPE, name)


def _mark_strings(parts: Iterable[str | Placeholder]) -> Iterator[str | Placeholder]:
    """Mark the placeholders that stand within string literals."""
    is_inside = is_escaped = False
    for part in parts:
        if isinstance(part, Placeholder):
            yield part._replace(in_string=is_inside)
            continue
        for character in part:
            if is_escaped:
                is_escaped = False
            elif character == "\\":
                is_escaped = is_inside
            elif character == '"':
                is_inside = not is_inside
        yield part
