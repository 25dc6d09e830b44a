"""Registering waits: ids for those that bring none, a callback URL for each."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never
from urllib.parse import quote

from msgspec.structs import replace

from actors.client import Gateway
from actors.runtime.actor import mint
from core.shared.address import Address, correlation_for
from core.shared.errors import MusterError
from core.shared.kafka_config import KafkaConfig
from core.shared.timestamps import moment
from core.waits.config import API_RESPONSE
from core.waits.messages import Judged, Message, Opened, Refused, Register, Reply, Standing
from core.waits.spec import Source, WaitSpec, encode_spec
from serve_app.http.auth import Tokens
from serve_app.http.problems import ProblemError, refusal
from serve_app.waits.rendering import Document, ids_document, required_events
from serve_app.waits.request_models import WaitRequest
from services.shared.time_slice import Breath, in_steps
from services.waits.completion_topics import ToldTopics
from services.waits.id_fields import Profiles
from services.waits.wait_topics import NamedTopics

DEFAULT_SERVICE = "external-service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A registration with all its ids."""

    address: Address
    node_id: str
    spec: WaitSpec
    fresh: bool

    def message(self) -> Register:
        """What is said to the correlation."""
        return Register(
            address=self.address,
            turn_id=mint(),
            node_id=self.node_id,
            spec=encode_spec(self.spec),
            fresh=self.fresh,
        )


class Registrar:
    """Registers waits for one tenant at a time."""

    def __init__(
        self,
        gateway: Gateway,
        profiles: Profiles,
        topics: NamedTopics,
        told: ToldTopics,
        tokens: Tokens,
    ) -> None:
        self._gateway = gateway
        self._profiles = profiles
        self._topics = topics
        self._told = told
        self._tokens = tokens

    async def register(self, tenant: int, request: WaitRequest) -> tuple[int, Document]:
        """Register one wait; status and document of the answer."""
        await self._told.check(tenant, [request.data])
        plan = plan_of(tenant, request, await self._told.config_of(tenant))
        await self._remember(tenant, [plan])
        return await self._answer(plan, await self._gateway.send(plan.message()))

    async def register_many(
        self, tenant: int, requests: Sequence[WaitRequest]
    ) -> list[tuple[int, Document] | ProblemError]:
        """Register several waits; each gets an answer of its own."""
        await self._told.check(tenant, [request.data for request in requests])
        kafka = await self._told.config_of(tenant)
        plans = await in_steps(lambda request: plan_of(tenant, request, kafka), requests)
        await self._remember(tenant, plans)
        messages: list[Message] = [*await in_steps(Plan.message, plans)]
        replies = await self._gateway.send_many(messages)
        answers: list[tuple[int, Document] | ProblemError] = []
        breath = Breath()
        for plan, reply in zip(plans, replies, strict=True):
            try:
                answers.append(await self._answer(plan, reply))
            except ProblemError as error:
                answers.append(error)
            if breath.is_due:
                await breath.take()
        return answers

    async def _remember(self, tenant: int, plans: Sequence[Plan]) -> None:
        used = {event.ids for plan in plans for event in plan.spec.events}
        await self._profiles.remember(tenant, used)
        await self._topics.remember(tenant, [plan.spec for plan in plans])

    async def _answer(self, plan: Plan, reply: Reply) -> tuple[int, Document]:
        match reply:
            case Opened():
                document = await self._document(plan, reply)
                return (201 if reply.created else 200), document
            case Refused():
                raise refusal(reply)
            case Judged() | Standing():
                raise MusterError(f"a registration was answered with {type(reply).__name__}")
            case _:
                assert_never(reply)

    async def _document(self, plan: Plan, reply: Opened) -> Document:
        # A little longer than the wait, so that a late answer is heard, too.
        until = reply.expires_at + self._gateway.config.token_grace
        document = ids_document(plan.address) | {
            "nodeId": plan.node_id,
            "status": reply.status,
            "created": reply.created,
            "version": reply.version,
            "enabledEvents": [event.name for event in plan.spec.events],
            "requiredEvents": required_events(plan.spec),
            "createdAt": moment(reply.opened_at),
            "expiresAt": moment(reply.expires_at),
            "callbackUrl": await self._url(plan.address, DEFAULT_SERVICE, until),
        }
        named = {
            event.name: await self._url(plan.address, event.label or event.name, until)
            for event in plan.spec.events
            if event.source is Source.API and event.name != API_RESPONSE
        }
        return document | {"callbackUrls": named} if named else document

    async def _url(self, address: Address, service: str, until: float) -> str:
        """Where this service calls back; its token is good for no other."""
        token = await self._tokens.sign(address, until, service)
        base = self._gateway.config.public_url
        return f"{base}/api/internal/callbacks/{quote(service, safe='')}?token={token}"


def plan_of(tenant: int, request: WaitRequest, kafka: KafkaConfig | None = None) -> Plan:
    """Give a registration the ids it lacks.

    Whoever names the execution may repeat the request: the correlation id then has to come out
    the same. Ids that are made up here are new, which spares the look for an older wait.
    """
    execution_id = request.execution_id or str(uuid.uuid4())
    fresh = request.execution_id is None and request.correlation_id is None
    if request.correlation_id is not None:
        correlation_id = request.correlation_id
    elif fresh:
        correlation_id = str(uuid.uuid4())
    else:
        correlation_id = correlation_for(tenant, execution_id, request.node_id)
    return Plan(
        address=Address(tenant, execution_id, correlation_id),
        node_id=request.node_id,
        spec=replace(request.data.to_spec(), publish=request.data.published_to(kafka)),
        fresh=fresh,
    )
