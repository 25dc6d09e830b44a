"""Expressions as callers send them, and what they mean."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from handlers.filters.parser import MAX_EXPRESSION_CHARS
from serve_app.http.fields import optional
from serve_app.http.models import View, WireModel
from serve_app.records.data_path_models import CollectionKey, SampleRecord

ExpressionText = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_EXPRESSION_CHARS,
        examples=["status == 'open' && total > 100"],
    ),
]


class ExpressionRequest(WireModel):
    """An expression to validate."""

    expression: ExpressionText
    collection_id: CollectionKey | None = Field(
        None, description="If given, the fields that the expression reads have to exist there."
    )


class ExpressionView(View):
    """Whether an expression can be evaluated, and what it reads."""

    valid: bool
    error: str | None = optional("What is wrong, and where.")
    position: int | None = optional("Where, in characters from 0.")
    fields: list[str] = Field(description="The fields of the record that it reads.")
    names: list[str] = Field(description="What else it reads, such as previous or now.")


class EvaluationRequest(SampleRecord):
    """An expression to evaluate on a record."""

    expression: ExpressionText
    collection_id: CollectionKey | None = Field(None, description="Of the record with recordId.")
    values: dict[str, Any] = Field(
        default_factory=dict,
        description="What the names beside the record stand for: previous, changed, user, vars, …",
    )

    @model_validator(mode="after")
    def _check_collection(self) -> Self:
        if self.record_id is not None and self.collection_id is None:
            raise ValueError("collectionId, because recordId is given")
        return self


class EvaluationView(View):
    """The value of an expression."""

    value: Any
