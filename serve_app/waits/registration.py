"""Registration of waits: it makes missing ids and a callback URL for each service."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from msgspec.structs import replace

from actors.client import ActorClient
from core.shared.address import Address, correlation_id_for_node
from core.shared.kafka_config import KafkaConfig
from core.shared.timestamps import to_iso
from core.waits.config import API_RESPONSE
from core.waits.messages import Register, RegisterReply, Reply, WaitMessage
from core.waits.spec import Source, WaitSpec, encode_spec
from serve_app.http.auth import TokenSigner
from serve_app.http.models import Document
from serve_app.http.problems import ProblemError, expect_reply
from serve_app.waits.rendering import ids_document
from serve_app.waits.request_models import WaitRequest
from serve_app.waits.wait_models import required_names
from services.shared.process import new_turn_id
from services.shared.time_slice import TimeSlice, map_yielding
from services.waits.completion_topics import CompletionTopics
from services.waits.intake import IdFieldRegistry
from services.waits.wait_topics import WaitTopics

DEFAULT_SERVICE = "external-service"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationPlan:
    """A registration with all ids."""

    address: Address
    node_id: str
    spec: WaitSpec
    fresh: bool

    def message(self) -> Register:
        return Register(
            address=self.address,
            turn_id=new_turn_id(),
            node_id=self.node_id,
            spec=encode_spec(self.spec),
            fresh=self.fresh,
        )


@dataclass(eq=False, repr=False)
class WaitRegistrar:
    """Registers waits for one tenant at a time."""

    _client: ActorClient
    _profiles: IdFieldRegistry
    _topics: WaitTopics
    _completion_topics: CompletionTopics
    _tokens: TokenSigner

    async def register(self, tenant: int, request: WaitRequest) -> tuple[int, Document]:
        """Register one wait; return the status and the document of the response."""
        await self._completion_topics.check(tenant, [request.data])
        plan = plan_registration(tenant, request, await self._completion_topics.config_of(tenant))
        await self._remember(tenant, [plan])
        return await self._answer(plan, await self._client.send(plan.message()))

    async def register_many(
        self, tenant: int, requests: Sequence[WaitRequest]
    ) -> list[tuple[int, Document] | ProblemError]:
        await self._completion_topics.check(tenant, [request.data for request in requests])
        kafka = await self._completion_topics.config_of(tenant)
        plans = await map_yielding(
            lambda request: plan_registration(tenant, request, kafka), requests
        )
        await self._remember(tenant, plans)
        messages: list[WaitMessage] = [*await map_yielding(RegistrationPlan.message, plans)]
        replies = await self._client.send_many(messages)
        answers: list[tuple[int, Document] | ProblemError] = []
        timeslice = TimeSlice()
        for plan, reply in zip(plans, replies, strict=True):
            try:
                answers.append(await self._answer(plan, reply))
            except ProblemError as error:
                answers.append(error)
            if timeslice.is_due:
                await timeslice.take()
        return answers

    async def _remember(self, tenant: int, plans: Sequence[RegistrationPlan]) -> None:
        used = {event.ids for plan in plans for event in plan.spec.events}
        await self._profiles.remember(tenant, used)
        await self._topics.remember(tenant, [plan.spec for plan in plans])

    async def _answer(self, plan: RegistrationPlan, reply: Reply) -> tuple[int, Document]:
        registered = expect_reply(RegisterReply, reply)
        document = await self._document(plan, registered)
        return (201 if registered.created else 200), document

    async def _document(self, plan: RegistrationPlan, reply: RegisterReply) -> Document:
        # The token is valid a little longer than the wait, so that late callbacks are stored too.
        until = reply.expires_at + self._client.config.token_grace
        document = ids_document(plan.address) | {
            "nodeId": plan.node_id,
            "status": reply.status,
            "created": reply.created,
            "version": reply.version,
            "enabledEvents": [event.name for event in plan.spec.events],
            "requiredEvents": required_names(plan.spec),
            "createdAt": to_iso(reply.opened_at),
            "expiresAt": to_iso(reply.expires_at),
            "callbackUrl": await self._url(plan.address, DEFAULT_SERVICE, until),
        }
        named = {
            event.name: await self._url(plan.address, event.label or event.name, until)
            for event in plan.spec.events
            if event.source is Source.API and event.name != API_RESPONSE
        }
        return document | {"callbackUrls": named} if named else document

    async def _url(self, address: Address, service: str, until: float) -> str:
        """Return the URL at which this service calls back; its token is valid for no other."""
        token = await self._tokens.sign(address, until, service)
        base = self._client.config.public_url
        return f"{base}/api/internal/callbacks/{quote(service, safe='')}?token={token}"


def plan_registration(
    tenant: int, request: WaitRequest, kafka: KafkaConfig | None = None
) -> RegistrationPlan:
    """Make the ids that a registration lacks.

    A caller that names the execution may repeat the request, so the correlation id is derived and
    stays the same. Random ids are new, so no older wait has to be searched for.
    """
    execution_id = request.execution_id or str(uuid.uuid4())
    fresh = request.execution_id is None and request.correlation_id is None
    if request.correlation_id is not None:
        correlation_id = request.correlation_id
    elif fresh:
        correlation_id = str(uuid.uuid4())
    else:
        correlation_id = correlation_id_for_node(tenant, execution_id, request.node_id)
    return RegistrationPlan(
        address=Address(tenant, execution_id, correlation_id),
        node_id=request.node_id,
        spec=replace(request.data.to_spec(), publish=request.data.published_to(kafka)),
        fresh=fresh,
    )
