"""Refusal of NUL characters, which JSON and URLs can carry and texts in Postgres cannot.

All requests are checked here, so that no field has to. Free JSON (an event's data, a filter's
values) is stored as bytes or as JSON and may contain NUL characters.
"""

from collections.abc import Iterator
from typing import Any, get_args
from urllib.parse import parse_qsl

from pydantic import BaseModel, RootModel
from starlette.types import Scope

from serve_app.http.field_errors import FieldError
from serve_app.http.problems import invalid_fields

NUL = "\x00"
NUL_IN_URL = b"%00"
_IN_JSON = b"\\u0000"
_EXPECTED = "a text without NUL characters"


def check_url(scope: Scope) -> None:
    """Raise a ProblemError that names the parameter if a path or a query has a NUL."""
    if NUL in scope["path"]:
        raise invalid_fields(FieldError("path", _EXPECTED))
    query = scope.get("query_string", b"")
    if NUL_IN_URL in query:
        pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        names = [name.replace(NUL, "") for name, value in pairs if NUL in name or NUL in value]
        raise invalid_fields(*(FieldError(name or "query", _EXPECTED) for name in names))


def check_texts(model: BaseModel, raw: bytes) -> None:
    """Raise a ProblemError that names the fields if texts of a body have a NUL."""
    if _IN_JSON in raw:
        faults = [FieldError(place, _EXPECTED) for place in _places(model, "")]
        if faults:
            raise invalid_fields(*faults)


def _places(value: Any, place: str) -> Iterator[str]:
    """Return the fields that contain a NUL character, as the caller would write them."""
    if isinstance(value, str):
        if NUL in value:
            yield place or "body"
    else:
        for item, way in _parts(value):
            yield from _places(item, f"{place}{way}".lstrip("."))


def _parts(value: Any) -> Iterator[tuple[Any, str]]:
    """Yield the parts of a value, each with its path within the value."""
    if isinstance(value, RootModel):
        yield value.root, ""
    elif isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            if not _is_free(field.annotation):
                yield getattr(value, name), f".{field.alias or name}"
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key, ""
            yield item, f".{key}".replace(NUL, "")
    elif isinstance(value, list | tuple):
        yield from ((item, f"[{index}]") for index, item in enumerate(value))


def _is_free(annotation: Any) -> bool:
    """Return whether a field takes any JSON."""
    return annotation is Any or any(map(_is_free, get_args(annotation)))
