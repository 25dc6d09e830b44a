"""What deliveries are signed with, as callers send and get it."""

from typing import Annotated

from pydantic import AfterValidator, Field

from core.dispatch.signature import read_secret
from serve_app.http.models import Wire

SHORTEST, LONGEST = 24, 64
OVERLAP = 86_400


def _is_secret(text: str) -> str:
    if not SHORTEST <= len(read_secret(text)) <= LONGEST:
        raise ValueError(f"whsec_ and {SHORTEST} to {LONGEST} bytes in base64")
    return text


SecretText = Annotated[
    str,
    Field(max_length=100, pattern=r"^whsec_[A-Za-z0-9+/]+={0,2}$"),
    AfterValidator(_is_secret),
]


class RotateRequest(Wire):
    """How a secret is replaced."""

    overlap_seconds: Annotated[int, Field(ge=0, le=30 * 86_400)] = Field(
        OVERLAP, description="So long deliveries carry a signature by the old one as well."
    )
    secret: SecretText | None = Field(None, description="Default: a new one.")


class LiveSecret(Wire):
    """A secret that signs."""

    secret: str
    created_at: str
    expires_at: str | None


class SecretView(Wire):
    """The newest secret, and all that sign at present, newest first."""

    secret: str
    secrets: list[LiveSecret]
