"""What an application declares as a whole, and what became of it."""

from typing import Annotated, TypeVar

from pydantic import AfterValidator, AliasPath, Field

from serve_app.dispatch.pool_models import PoolRequest
from serve_app.dispatch.subscription_models import SubscriptionFields
from serve_app.http.fields import Code
from serve_app.http.models import View, WireModel
from services.dispatch.declarations import DeclarationOptions

MAX_DECLARED_SUBSCRIPTIONS = 200
MAX_DECLARED_POOLS = 100
T = TypeVar("T", "DeclaredSubscription", PoolRequest)


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


class DeclaredSubscription(SubscriptionFields):
    """A subscription as an application declares it."""

    code: Code


def _name_each_once(declared: list[T]) -> list[T]:
    codes = [one.code for one in declared]
    if len(set(codes)) < len(codes):
        raise ValueError("each code once")
    return declared


class SubscriptionSyncRequest(SyncRequest):
    """All subscriptions of an application."""

    subscriptions: Annotated[
        list[DeclaredSubscription],
        Field(max_length=MAX_DECLARED_SUBSCRIPTIONS),
        AfterValidator(_name_each_once),
    ]


class PoolSyncRequest(SyncRequest):
    """All dispatch pools of an application."""

    pools: Annotated[
        list[PoolRequest], Field(max_length=MAX_DECLARED_POOLS), AfterValidator(_name_each_once)
    ]


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
    kept: list[KeptView]
