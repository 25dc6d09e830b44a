"""Templates as JSON, so that one process binds them and another renders them.

Placeholders are kept apart from text: what is stored is never parsed as a template again.
"""

from typing import Any

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


def encode_template(template: DocumentTemplate) -> Any:
    """Return the template as JSON: an object with one name for each part, numbers as they are."""
    match template:
        case Template(parts, format):
            return {"text": [_encode_part(part) for part in parts], "format": format.value}
        case BoundValue(value):
            return {"value": value}
        case ListTemplate(items):
            return {"list": [encode_template(item) for item in items]}
        case MapTemplate(items):
            return {"map": [[encode_template(name), encode_template(item)] for name, item in items]}
        case _:
            return template


def decode_template(document: Any) -> DocumentTemplate:
    """Return the template that was encoded.

    Raises:
        ValueError: The document is no stored template.
    """
    match document:
        case None | bool() | int() | float():
            return document
        case {"text": _, "format": _}:
            return _decode_text(document)
        case {"value": value}:
            return BoundValue(value)
        case {"list": list(items)}:
            return ListTemplate(tuple(map(decode_template, items)))
        case {"map": list(items)}:
            return MapTemplate(
                tuple((_decode_text(name), decode_template(item)) for name, item in items)
            )
        case _:
            raise ValueError(f"not a stored template: {str(document)[:100]}")


def _encode_part(part: str | Placeholder) -> Any:
    return part if isinstance(part, str) else [part.kind.value, part.name, part.in_string]


def _decode_text(document: Any) -> Template | BoundValue:
    match document:
        case {"value": value}:
            return BoundValue(value)
        case {"text": list(parts), "format": str(format)}:
            return Template(tuple(map(_decode_part, parts)), TextFormat(format))
        case _:
            raise ValueError(f"not a stored text: {str(document)[:100]}")


def _decode_part(part: Any) -> str | Placeholder:
    match part:
        case str():
            return part
        case [str(kind), str(name), bool(in_string)]:
            return Placeholder(PlaceholderKind(kind), name, in_string)
        case _:
            raise ValueError(f"not a part of a stored text: {str(part)[:100]}")
