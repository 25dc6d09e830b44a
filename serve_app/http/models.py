"""What all wire models share: camelCase outside, snake_case inside."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel

_NUMBER = re.compile(r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?")


def _is_written_out(value: Any) -> Any:
    """Let pass what is no number: pydantic would take it for seconds or for milliseconds."""
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
    """A document as it travels. Unknown fields are mistakes."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Print nothing that is secret, whatever model it is in."""
        for name, value in super().__repr_args__():
            if name not in SECRET_FIELDS:
                yield name, value
