"""The model of problem documents (RFC 9457)."""

from typing import Any

from pydantic import Field

from serve_app.http.models import WireModel


class FieldErrorView(WireModel):
    """One invalid field."""

    field: str
    expected: str
    got: Any = None


class ProblemView(WireModel):
    """A problem document (RFC 9457)."""

    type: str = Field(examples=["urn:muster:problem:not_found"])
    title: str
    status: int
    detail: str
    code: str = Field(description="Stays the same over versions.")
    errors: list[FieldErrorView] | None = None
    correlation_id: str | None = Field(None, description="409: what is registered already.")
    quota: str | None = Field(None, description="Which quota of the tenant is used up.")
    limit: int | None = Field(None, description="That quota's limit.")
    request_id: str | None = Field(None, description="Finds the request in the log.")
