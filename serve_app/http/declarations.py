"""Declarations: all rows of one kind that an application wants to have, in one request."""

from collections.abc import Sequence
from typing import Annotated, Self, TypeVar

from fastapi import Path
from pydantic import AliasPath, Field

from core.events.event_type import CODE_LENGTH, SEGMENT
from serve_app.http.models import View, WireModel
from serve_app.http.problems import problem_error
from storage.postgres.reconciler import DeclarationOptions, HasCode, Synced, SyncRefusal

DeclaredT = TypeVar("DeclaredT", bound=HasCode)
Application = Annotated[
    str, Path(pattern=rf"^{SEGMENT}$", max_length=CODE_LENGTH, examples=["shop"])
]


def each_code_once(declared: list[DeclaredT]) -> list[DeclaredT]:
    codes = [one.code for one in declared]
    if len(set(codes)) < len(codes):
        raise ValueError("each code once")
    return declared


class SyncRequest(WireModel):
    """How an application means its declaration."""

    remove_unlisted: bool = Field(
        False, description="Remove what was declared before and is not listed, unless in use."
    )
    dry_run: bool = Field(False, description="Say what would happen, and change nothing.")

    def to_options(self, application: str) -> DeclarationOptions:
        return DeclarationOptions(
            application=application, remove=self.remove_unlisted, is_dry_run=self.dry_run
        )


class KeptView(View):
    """What is not listed and could not go."""

    code: str
    reason: str = Field(validation_alias=AliasPath("refusal", "code"))
    detail: str = Field(validation_alias=AliasPath("refusal", "sentence"))


class SyncView(View):
    """What has become of which; the codes of each kind."""

    application: str
    dry_run: bool
    created: list[str]
    updated: list[str]
    unchanged: list[str]
    removed: list[str]
    kept: Sequence[KeptView]

    @classmethod
    def of_result(cls, options: DeclarationOptions, result: Synced) -> Self:
        """Render what was done.

        Raises:
            ProblemError: The declaration was refused.
        """
        if isinstance(result, SyncRefusal):
            where = result.code if result.part is None else f"{result.code} {result.part}"
            detail = f"{where}: {result.refusal.sentence}; nothing was changed"
            raise problem_error(409, result.refusal.code, detail)
        values = {name: getattr(result, name, None) for name in cls.model_fields}
        named = {"application": options.application, "dry_run": options.is_dry_run}
        return cls.of(values | named)
