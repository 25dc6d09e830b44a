"""Quotas as a tenant sees them."""

from datetime import datetime

from pydantic import Field

from core.shared.quotas import Quota
from serve_app.http.models import WireModel


class QuotaView(WireModel):
    """How much of one quota is used."""

    name: Quota
    used: int
    limit: int | None = Field(None, description="Null: there is none.")
    own: bool = Field(description="Whether this limit is the tenant's own, not that of all.")
    resets_at: datetime | None = Field(
        None, description="When it begins anew; null where it frees as things go."
    )


class QuotaList(WireModel):
    """A tenant's quotas. What is stored is counted about once a second."""

    items: list[QuotaView]
