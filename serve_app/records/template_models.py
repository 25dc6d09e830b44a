"""Templates as callers send them, and what is made of them."""

from typing import Any, Self

from pydantic import Field, model_validator

from core.templates.template import TextFormat
from serve_app.http.models import View
from serve_app.records.data_path_models import CollectionKey, SampleRecord


class TemplateRequest(SampleRecord):
    """A template to render: a text, or a JSON document with texts in it."""

    template: Any = Field(examples=["Dear {{customer_id.name}}, thank you for @{_vars.what}."])
    format: TextFormat = Field(
        TextFormat.PLAIN, description="Of a text: how values are escaped in it."
    )
    collection_id: CollectionKey | None = Field(
        None, description="Of the record; data paths over relationships need it."
    )
    scope: dict[str, Any] = Field(
        default_factory=dict, description="What @{…} reads.", examples=[{"_vars": {"what": "tea"}}]
    )
    strict: bool = Field(False, description="Whether a value that is missing is an error.")

    @model_validator(mode="after")
    def _check_template(self) -> Self:
        if self.record_id is not None and self.collection_id is None:
            raise ValueError("collectionId, because recordId is given")
        if self.format is not TextFormat.PLAIN and not isinstance(self.template, str):
            raise ValueError("a text as the template, because a format is given")
        return self


class RenderedView(View):
    """A rendered template."""

    rendered: Any
    missing: list[str] = Field(description="Placeholders without a value, which became nothing.")
