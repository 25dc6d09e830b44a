"""Subscriptions of requests, checked before they are stored."""

from collections.abc import Container, Sequence, Set
from dataclasses import replace
from typing import Any

from core.dispatch.signature import parse_secret
from core.dispatch.subscription import Binding, Subscription, SubscriptionSource, SubscriptionStatus
from core.shared.call_policy import CallPolicy
from core.shared.errors import InvalidError
from handlers.filters.cel import InvalidFilter, compile_filter
from handlers.http.target_check import check_target, origin_of
from serve_app.dispatch.subscription_models import (
    BindingRequest,
    DeclaredSubscription,
    SubscriptionFields,
    SubscriptionPatch,
    SubscriptionReplacement,
    SubscriptionRequest,
    values_of,
)
from serve_app.http.field_errors import FieldError
from serve_app.http.problems import ProblemError, invalid_request
from serve_app.http.router import Context
from storage.dispatch import pools, webhook_secrets
from storage.dispatch.subscriptions import SubscriptionEdit
from storage.events import event_types

_FIELDS = frozenset(SubscriptionFields.model_fields)
# Never shown, so they cannot be sent back: they stay unless they are given anew.
_UNSEEN = frozenset({"headers", "auth"})


class SubscriptionService:
    """Makes what a tenant asks for ready to be stored.

    Everything here raises InvalidError for what cannot be stored, and names the field.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        config = context.replica.config
        self._policy = CallPolicy(config.call_networks, config.call_ports)
        self._pools: dict[str, dict[str, Any]] = {}

    async def new(self, request: SubscriptionRequest) -> Subscription:
        """Return a new subscription from a request."""
        made = await self._made(request, request.code)
        return replace(made, source=request.source, status=request.status)

    async def declared(self, requests: Sequence[DeclaredSubscription]) -> list[Subscription]:
        """Return the subscriptions that an application declares."""
        return [
            replace(
                await self._made(request, request.code, f"subscriptions[{place}]."),
                source=SubscriptionSource.CODE,
            )
            for place, request in enumerate(requests)
        ]

    async def replacement(self, request: SubscriptionReplacement) -> SubscriptionEdit:
        """Return a function that replaces a subscription."""
        names = _FIELDS - (_UNSEEN - request.model_fields_set)
        return await self._edit(request, names, request.status, request.code)

    async def change(self, request: SubscriptionPatch) -> SubscriptionEdit:
        """Return a function that changes some fields of a subscription."""
        return await self._edit(request, request.model_fields_set - {"status"}, request.status)

    async def _edit(
        self,
        request: SubscriptionFields,
        names: Set[str],
        status: SubscriptionStatus | None,
        code: str | None = None,
    ) -> SubscriptionEdit:
        values = await self._values(request, names)

        def edit(current: Subscription) -> Subscription:
            if code not in (None, current.code):
                raise InvalidError("code", f"{current.code}: the code cannot change")
            changed = replace(current, **values)
            check_credentials(current, changed, values)
            if status is None or status is changed.status:
                return changed
            return replace(changed, status=status, status_reason=None, failing_since=None)

        return edit

    async def _made(self, request: SubscriptionFields, code: str, within: str = "") -> Subscription:
        return Subscription(
            tenant=self._context.tenant,
            subscription_id=self._context.new_id("sub"),
            code=code,
            **await self._values(request, _FIELDS, within),
        )

    async def _values(
        self, request: SubscriptionFields, names: Set[str], within: str = ""
    ) -> dict[str, Any]:
        """Check the given fields, and return them by their names in the core."""
        found = values_of(request, names)
        if found.get("target") is not None:
            check_target(request.target, self._policy, f"{within}target")
        if found.get("filter") is not None:
            checked = compile_filter(found["filter"])
            if isinstance(checked, InvalidFilter):
                raise InvalidError(f"{within}filter", checked.reason)
        if "event_types" in names:
            found["bindings"] = await self._bindings(request.event_types, within)
        if "dispatch_pool_id" in names:
            found |= await self._pool(request.dispatch_pool_id, within)
        return found

    async def _pool(self, name: str, within: str) -> dict[str, Any]:
        if name not in self._pools:
            row = await self._context.read(pools.find, name)
            if row is None:
                raise InvalidError(f"{within}dispatchPoolId", "the id or the code of a pool in use")
            self._pools[name] = {
                "pool_no": row.pool_no,
                "pool_id": row.pool_id,
                "pool_code": row.code,
            }
        return self._pools[name]

    async def _bindings(
        self, requests: Sequence[BindingRequest], within: str
    ) -> tuple[Binding, ...]:
        bindings: dict[str, Binding] = {}
        for place, request in enumerate(requests):
            where = f"{within}eventTypes[{place}].eventTypeId"
            pattern = request.event_type_code or await self._code_of(
                request.event_type_id or "", where
            )
            if pattern in bindings:
                raise InvalidError(where, "each type once")
            bindings[pattern] = Binding(pattern, request.spec_version)
        return tuple(bindings[pattern] for pattern in sorted(bindings))

    async def _code_of(self, event_type_id: str, where: str) -> str:
        found = await self._context.read(event_types.read, event_type_id)
        if found is None:
            raise InvalidError(where, "an event type that exists")
        return found.code


def check_credentials(current: Subscription, changed: Subscription, given: Container[str]) -> None:
    """Check that credentials do not go to another origin than the one they were given for.

    Whoever may change a subscription cannot read them, and must not have them sent to itself.

    Raises:
        ProblemError: Some are stored, and the origin is another; it names them all.
    """
    was, is_ = origin_of(current.target), origin_of(changed.target)
    if was == is_:
        return
    kept = [name for name in sorted(_UNSEEN) if getattr(current, name) and name not in given]
    if kept:
        expected = f"given again, or cleared: the stored ones are for {was}, and target is {is_}"
        raise ProblemError(invalid_request(FieldError(name, expected) for name in kept))


def secret_or_new(text: str | None) -> bytes:
    """Return the given secret, or a new one."""
    return webhook_secrets.new_secret() if text is None else parse_secret(text)
