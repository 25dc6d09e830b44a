"""Base classes of wire models: camelCase outside, snake_case inside."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Self

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, model_validator
from pydantic.alias_generators import to_camel

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

    @classmethod
    def of(cls, row: object) -> Self:
        """Render a row."""
        return cls.model_validate(row, from_attributes=True)


class Patch(WireModel):
    """Fields to change; those left out stay as they are."""

    CLEARABLE: ClassVar[frozenset[str]] = frozenset()
    """Fields that null clears; null is an error in other fields."""

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("at least one field")
        empty = [n for n in self.model_fields_set - self.CLEARABLE if getattr(self, n) is None]
        if empty:
            raise ValueError(f"{min(empty)} cannot be null")
        return self

    def values(self) -> dict[str, Any]:
        """Return the given fields by the names of the row's attributes."""
        return self.model_dump(exclude_unset=True)


def drop_none(document: Document) -> Document:
    """Leave out the fields that have no value."""
    return {name: value for name, value in document.items() if value is not None}
