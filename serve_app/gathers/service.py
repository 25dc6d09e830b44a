"""Starting gathers: the correlation is committed first, then the resources are called."""

import re
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from actors.client import ActorClient
from core.access.permissions import Permission
from core.access.tokens import CALLBACK, STREAM
from core.gathers import gather
from core.gathers.gather import GatherMode, GatherSpec, OnDisconnect, Resource
from core.shared.address import Address
from core.shared.errors import InvalidError, NotFoundError, OverloadedError
from core.waits.messages import Cancel, Register, RegisterReply
from core.waits.spec import encode_spec
from core.waits.state import GATHER_ENTRY
from serve_app.http.auth import Caller, TokenSigner
from serve_app.http.problems import expect_reply
from services.shared.database import Database
from services.shared.process import new_turn_id
from storage.encryption.secret_values import encrypt_gather_spec
from storage.gathers import resources
from storage.waits import waits
from storage.waits.waits import WaitRow

# Seconds that the first answer waits for the resources to accept their calls.
ACCEPTANCE_TIMEOUT = 0.25
CALLS_RETRY_SECONDS = 2

_TRACE = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class StartedGather:
    """A gather that is committed and whose resources are being called."""

    address: Address
    opened: RegisterReply
    accepted: int
    timeout_ms: int
    stream_token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class StoredGather:
    """A gather as it is stored in Postgres."""

    row: WaitRow
    asked: GatherSpec


@dataclass(eq=False, repr=False)
class GatherService:
    """Starts gathers and finds them again."""

    _client: ActorClient
    _database: Database
    _tokens: Mapping[str, TokenSigner]

    async def begin(self, tenant: int, asked: GatherSpec, timeout_ms: int) -> StartedGather:
        """Register the correlation, then have the resources called.

        Raises:
            InvalidError: A resource is not registered.
            OverloadedError: Too many calls wait already.
        """
        known = await self._known(tenant, asked)
        gather_id = str(uuid.uuid4())
        address = Address(tenant, gather_id, gather_id)
        opened = await self._register(address, asked, timeout_ms / 1000)
        config = self._client.config
        heard_until = opened.expires_at + config.token_grace
        urls = [
            await self._callback_url(address, ask.name, asked, heard_until) for ask in asked.asks
        ]
        errand = gather.build_call_batch(asked, address, opened.expires_at, known, urls)
        timeout_seconds = ACCEPTANCE_TIMEOUT if asked.mode is GatherMode.STREAM else 0.0
        agreed = await self._client.begin_calls(errand, timeout_seconds)
        if agreed is None:
            # Otherwise a pool would find the gather in Postgres and call its resources.
            await self._client.send(Cancel(address=address, turn_id=new_turn_id()))
            raise OverloadedError(
                "too many calls wait for their turn; slow down", CALLS_RETRY_SECONDS
            )
        # The token is valid for as long as the answers are stored.
        kept_until = opened.expires_at + config.retention
        stream_token = await self._tokens[STREAM].sign(address, kept_until)
        return StartedGather(address, opened, agreed, timeout_ms, stream_token)

    async def _callback_url(
        self, address: Address, name: str, asked: GatherSpec, until: float
    ) -> str:
        """Return the URL at which this resource answers; its token is valid for no other."""
        token = await self._tokens[CALLBACK].sign(address, until, name)
        return gather.callback_url(self._client.config.public_url, asked, name, token)

    async def find(self, address: Address) -> StoredGather:
        wait_row = await self._database.query(waits.read, address)
        if wait_row is None or not wait_row.wait.spec.gather:
            raise NotFoundError(f"gather {address.correlation_id}")
        page = await self._database.query(waits.read_lines, address.key, [1])
        asked = next(entry.payload for entry in page if entry.kind == GATHER_ENTRY)
        # Secrets stay encrypted, since no view shows them.
        return StoredGather(wait_row, gather.decode_gather_spec(asked))

    async def find_missing(self, tenant: int, names: list[str]) -> list[str]:
        known = await self._database.query(resources.find, tenant, names)
        return [name for name in names if name not in known]

    async def _known(self, tenant: int, asked: GatherSpec) -> dict[str, Resource]:
        names = [ask.name for ask in asked.asks if ask.inline is None]
        known = await self._database.query(resources.find, tenant, names) if names else {}
        for index, ask in enumerate(asked.asks):
            if ask.inline is None and ask.name not in known:
                remedy = f"{ask.name} is not registered: PUT /api/resources/{ask.name}"
                raise InvalidError(f"resources[{index}]", f"a registered resource; {remedy}")
        return known

    async def _register(self, address: Address, asked: GatherSpec, timeout: float) -> RegisterReply:
        message = Register(
            address=address,
            turn_id=new_turn_id(),
            node_id=gather.NODE,
            spec=encode_spec(
                gather.wait_spec_of(asked.asks, timeout, fixed_names=asked.fixed_names)
            ),
            fresh=True,
            asked=gather.encode_gather_spec(encrypt_gather_spec(asked, address)),
        )
        return expect_reply(RegisterReply, await self._client.send(message))


def grace_of(asked: GatherSpec) -> float | None:
    """Return for how long a gather goes on without readers; None if it always goes on."""
    return None if asked.on_disconnect is OnDisconnect.DETACH else asked.grace


def grace_of_reader(asked: GatherSpec, caller: Caller) -> float | None:
    """Return the same for one reader: a caller who may only read does not end the gather."""
    may_end = caller.address is not None or Permission.GATHERS_WRITE in caller.permissions
    return grace_of(asked) if may_end else None


def cap_timeout(timeout_ms: int) -> tuple[int, dict[str, str]]:
    """Limit the timeout, and return a Warning header if it is less than the caller asked for."""
    if timeout_ms <= gather.MAX_TIMEOUT_MS:
        return timeout_ms, {}
    warning = f'299 muster "timeoutMs {timeout_ms} was capped at {gather.MAX_TIMEOUT_MS}"'
    return gather.MAX_TIMEOUT_MS, {"Warning": warning}


def continue_trace(given: str | None) -> str:
    """Make a span of the caller's trace, or of a new trace if the caller sent none."""
    span = secrets.token_hex(8)
    if given is None or not _TRACE.fullmatch(given):
        return f"00-{secrets.token_hex(16)}-{span}-01"
    version, trace, _, flags = given.split("-")
    return f"{version}-{trace}-{span}-{flags}"
