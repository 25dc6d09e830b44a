"""Field types that the request models and views of several domains share."""

import base64
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from core.shared.json_path import is_json
from core.shared.timestamps import to_iso
from core.waits.config import MASK
from serve_app.http.models import WireModel

TSID = r"[0-9A-HJKMNP-TV-Z]{13}"
TYPE_ID = rf"^evt_{TSID}$"
SCHEMA_ID = rf"^sch_{TSID}$"


def is_printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("printable characters")
    return value


DisplayName = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(is_printable)]
Description = Annotated[str, Field(max_length=255, pattern=r"^[^\x00]*$")]
Code = Annotated[
    str,
    Field(pattern=r"^[a-z][a-z0-9-]*$", min_length=2, max_length=100, examples=["order-processor"]),
]
Limit = Annotated[int, Field(ge=1, le=500)]
Cursor = Annotated[str | None, Field(description="nextCursor of the page before.")]
IsoTime = Annotated[
    str, BeforeValidator(to_iso), WithJsonSchema({"type": "string", "format": "date-time"})
]
"""A view's time: seconds since 1970 in the row, ISO 8601 in the document."""


def optional(description: str | None = None, **more: Any) -> Any:
    """Declare a field of a view that is left out where it is None."""
    return Field(None, description=description, exclude_if=lambda value: value is None, **more)


OptionalIsoTime = Annotated[
    str | None, BeforeValidator(lambda at: None if at is None else to_iso(at))
]


class BearerAuth(WireModel):
    """A bearer token to send."""

    type: Literal["bearer"]
    token: Annotated[str, Field(min_length=1, max_length=8_000, pattern=r"^[\x21-\x7e]+$")]

    def header(self) -> str:
        return f"Bearer {self.token}"


class BasicAuth(WireModel):
    """A user name and a password to send."""

    type: Literal["basic"]
    username: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^:\x00-\x1f]+$")]
    password: Annotated[str, Field(max_length=1_000)]

    def header(self) -> str:
        raw = base64.b64encode(f"{self.username}:{self.password}".encode())
        return f"Basic {raw.decode()}"


Auth = Annotated[BearerAuth | BasicAuth, Field(discriminator="type")]


def _mask_auth(auth: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if auth is None else {"type": auth["type"], "secret": MASK}


MaskedAuth = Annotated[dict[str, Any] | None, BeforeValidator(_mask_auth)]
"""Credentials in a view: their type only."""
MaskedHeaders = Annotated[
    dict[str, str], BeforeValidator(lambda headers: dict.fromkeys(headers, MASK))
]
"""Headers in a view: their names, and MASK for each value."""


class Encoding(StrEnum):
    """How a document shows bytes: as JSON, as text, or in base64 if they are neither."""

    JSON = "json"
    TEXT = "text"
    BASE64 = "base64"
    NONE = "none"


def json_or_base64(raw: bytes | None) -> tuple[Any, Encoding]:
    """Return JSON as it came; anything else in base64."""
    if raw is None:
        return None, Encoding.NONE
    if not is_json(raw):
        return base64.b64encode(raw).decode(), Encoding.BASE64
    return msgspec.Raw(raw), Encoding.JSON


def text_or_base64(raw: bytes | None) -> tuple[str | None, Encoding]:
    """Return UTF-8 as it came; anything else in base64."""
    if raw is None:
        return None, Encoding.NONE
    try:
        return raw.decode(), Encoding.TEXT
    except UnicodeDecodeError:
        return base64.b64encode(raw).decode(), Encoding.BASE64
