"""Base classes of wire models: camelCase outside, snake_case inside."""

import re
from collections.abc import Iterator
from dataclasses import replace
from types import NoneType
from typing import Annotated, Any, ClassVar, Self, get_args

import msgspec
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from core.shared.errors import InvalidError

Document = dict[str, Any]
"""A JSON document that is built without a model."""
_NUMBER = re.compile(r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?")


def _is_written_out(value: Any) -> Any:
    """Raise for a number, which pydantic would read as seconds or as milliseconds."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        raise ValueError("a time with its zone, such as 2026-01-31T12:00:00Z")
    return value


QueryTimestamp = Annotated[AwareDatetime, BeforeValidator(_is_written_out)]
"""A point in time in a query, where everything is text."""


SECRET_FIELDS = frozenset(
    {
        "auth",
        "callback_url",
        "callback_urls",
        "headers",
        "key",
        "password",
        "secret",
        "secrets",
        "token",
    }
)


class WireModel(BaseModel):
    """A JSON document. Unknown fields are errors."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Leave secret fields out of the text form."""
        for name, value in super().__repr_args__():
            if name not in SECRET_FIELDS:
                yield name, value


class View(WireModel):
    """A document that answers a request, made from a row by the names of its attributes."""

    def to_json(self) -> bytes:
        return self.model_dump_json(by_alias=True).encode()

    def response_headers(self) -> dict[str, str]:
        """Return the headers that go with the document."""
        return {}

    @classmethod
    def of(cls, row: object) -> Self:
        return cls.model_validate(row, from_attributes=True)


class PayloadView(View):
    """A view with stored JSON in `msgspec.Raw`, which is passed on byte for byte."""

    def to_json(self) -> bytes:
        return msgspec.json.encode(self.model_dump(by_alias=True))


class Replacement(WireModel):
    """All of a row but its code; fields that are left out get their default."""

    def edit(self, row: Any) -> Any:
        """Return the row with these values."""
        values = self.model_dump()
        if values.pop("code") not in (None, row.code):
            raise InvalidError("code", f"{row.code}: the code cannot change")
        return replace(row, **values)


class Patch(WireModel):
    """Fields to change; those left out stay as they are.

    A subclass also inherits the model that declares the fields. None of them is required here, and
    null clears those that may be null.
    """

    _clearable: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **_options: Any) -> None:
        clearable = set()
        for name, field in cls.model_fields.items():
            kind: Any = field.annotation
            text = field.description or ""
            if NoneType in get_args(kind):
                clearable.add(name)
                text = text if "null" in text else f"{text} null clears it.".lstrip()
            constrained: Any = Annotated[(kind, *field.metadata)] if field.metadata else kind
            cls.model_fields[name] = FieldInfo.from_annotated_attribute(
                constrained | None, Field(None, alias=field.alias, description=text or None)
            )
        cls._clearable = frozenset(clearable)
        cls.model_rebuild(force=True)

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("at least one field")
        empty = [n for n in self.model_fields_set - self._clearable if getattr(self, n) is None]
        if empty:
            raise ValueError(f"{min(empty)} cannot be null")
        return self

    def values(self) -> dict[str, Any]:
        """Return the given fields by the names of the row's attributes."""
        return self.model_dump(exclude_unset=True)

    def edit(self, row: Any) -> Any:
        """Return the row with these values."""
        return replace(row, **self.values())


def drop_none(document: Document) -> Document:
    return {name: value for name, value in document.items() if value is not None}
