"""Webhook secrets as callers send and get them."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from core.dispatch.signature import format_secret, parse_secret
from serve_app.http.fields import IsoTime, OptionalIsoTime
from serve_app.http.models import View, WireModel

MIN_SECRET_BYTES, MAX_SECRET_BYTES = 24, 64
DEFAULT_OVERLAP_SECONDS = 86_400


def _is_secret(text: str) -> str:
    if not MIN_SECRET_BYTES <= len(parse_secret(text)) <= MAX_SECRET_BYTES:
        raise ValueError(f"whsec_ and {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes in base64")
    return text


SecretText = Annotated[
    str,
    Field(max_length=100, pattern=r"^whsec_[A-Za-z0-9+/]+={0,2}$"),
    AfterValidator(_is_secret),
]


class RotateRequest(WireModel):
    """How a secret is replaced."""

    overlap_seconds: Annotated[int, Field(ge=0, le=30 * 86_400)] = Field(
        DEFAULT_OVERLAP_SECONDS,
        description="For how long deliveries carry a signature of the old secret too.",
    )
    secret: SecretText | None = Field(None, description="Default: a new one.")


ShownSecret = Annotated[str, BeforeValidator(format_secret)]


class LiveSecret(View):
    """A secret that signs."""

    secret: ShownSecret
    created_at: IsoTime
    expires_at: OptionalIsoTime


class SecretView(View):
    """The newest secret, and all that sign at present, newest first."""

    secret: ShownSecret
    secrets: list[LiveSecret]
