"""Authentication of callers: API keys, and signed tokens in callback URLs."""

import asyncio
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from core.access.permissions import Permission, split_key
from core.access.tokens import CALLBACK, TOKEN_SCOPE, sign, verify
from core.shared.address import Address
from core.shared.errors import Denial, ForbiddenError, OverloadedError, UnauthenticatedError
from services.shared.cache import Cache
from services.shared.group_commit import GroupCommit
from storage.access.keys import Credential

KEY_TTL = 10.0
UNKNOWN_TTL = 1.0
"""Seconds for which an unknown key is not looked up again."""
MAX_UNKNOWN_KEYS = 10_000
MAX_WAITING_LOOKUPS = 2_000
LOOKUP_BATCH_SIZE = 500
FindLive = Callable[[list[str]], Awaitable[set[str]]]
_NO_SUCH_KEY = "this API key is unknown, expired or revoked"
SECRETS_TTL = 10.0
SECRETS_RETRY = 1.0
_SEE_EXPECTED = frozenset({Permission.WAITS_READ, Permission.INBOX_READ})


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller.

    A token sets `address`, the only one it allows, and `source` if it is one resource's.
    """

    tenant: int
    permissions: frozenset[str]
    prefix: str = ""
    address: Address | None = None
    source: str = ""

    @property
    def sees_expected(self) -> bool:
        """Return whether this caller may see what a wait expects: other services, and values."""
        return not self.permissions.isdisjoint(_SEE_EXPECTED)

    def check_source(self, source: str) -> None:
        """Raise ForbiddenError if this caller may not send events as `source`."""
        if self.source and self.source != source:
            detail = f"this token is for answers of {self.source}, not of {source}"
            raise ForbiddenError(detail, TOKEN_SCOPE)


@dataclass(frozen=True, slots=True)
class _Holder:
    """The caller that a key belongs to, and the hash of the key's secret."""

    caller: Caller
    secret_hash: bytes
    lives: float | None


class KeyLookup:
    """Finds out whether a prefix belongs to a live key; many keys share one query.

    A caller can send any number of invalid keys. They are cached apart from valid keys, so that
    they cannot push valid keys out of the cache.
    """

    def __init__(
        self, find_live: FindLive, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._find_live = find_live
        self._monotonic = monotonic
        self._unknown: dict[str, float] = {}
        self._waiting: dict[str, asyncio.Future[bool]] = {}
        self._lookups = GroupCommit(self._ask, LOOKUP_BATCH_SIZE)

    async def exists(self, prefix: str) -> bool:
        """Return whether there is a live key with this prefix; refuse if too many are looked up."""
        if self._unknown.get(prefix, 0.0) > self._monotonic():
            return False
        waiting = self._waiting.get(prefix)
        if waiting is None:
            if len(self._waiting) >= MAX_WAITING_LOOKUPS:
                raise OverloadedError("too many unknown API keys are being looked up")
            waiting = self._waiting[prefix] = asyncio.get_running_loop().create_future()
            self._lookups.add(prefix)
        # One caller's cancellation must not cancel the lookup of the others.
        return await asyncio.shield(waiting)

    def forget(self, prefix: str) -> None:
        """Drop what is cached about a prefix, because its key may exist now."""
        self._unknown.pop(prefix, None)

    async def _ask(self, prefixes: list[str]) -> None:
        try:
            live = await self._find_live(prefixes)
        except Exception as error:
            self._fail(prefixes, error)
        else:
            self._answer(prefixes, live)

    def _answer(self, prefixes: list[str], live: set[str]) -> None:
        until = self._monotonic() + UNKNOWN_TTL
        for prefix in prefixes:
            if prefix not in live:
                self._unknown.pop(prefix, None)
                self._unknown[prefix] = until
            self._waiting.pop(prefix).set_result(prefix in live)
        while len(self._unknown) > MAX_UNKNOWN_KEYS:
            del self._unknown[next(iter(self._unknown))]

    def _fail(self, prefixes: list[str], error: Exception) -> None:
        for prefix in prefixes:
            waiting = self._waiting.pop(prefix)
            waiting.set_exception(error)
            waiting.exception()  # marks it as retrieved: all callers may have left


class ApiKeyVerifier:
    """Verifies API keys. A key is refused once it expires, and within KEY_TTL of its revocation."""

    def __init__(
        self,
        find: Callable[[str], Awaitable[Credential | None]],
        find_live: FindLive,
        touch: Callable[[list[str]], Awaitable[None]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._touch = touch
        self._lookup = KeyLookup(find_live, monotonic)
        self._used: set[str] = set()

        async def holder(prefix: str) -> _Holder | None:
            found = await find(prefix)
            if found is None:
                return None
            caller = Caller(found.tenant, found.permissions, prefix)
            return _Holder(caller, found.secret_hash, found.lives)

        self._holders = Cache(holder, ttl=_ttl, monotonic=monotonic)

    async def caller(self, authorization: str | None) -> Caller:
        """Return the caller whose key is in an Authorization header.

        Raises:
            UnauthenticatedError: There is no key, or it is unknown, expired or revoked.
            OverloadedError: Too many unknown keys are being looked up.
        """
        if authorization is None:
            detail = "an API key is needed: Authorization: Bearer mk_…"
            raise UnauthenticatedError(detail, Denial("no_key"))
        kind, _, key = authorization.partition(" ")
        split = split_key(key.strip()) if kind.lower() == "bearer" else None
        if split is None:
            detail = "the API key is malformed; send Authorization: Bearer mk_<prefix>_<secret>"
            raise UnauthenticatedError(detail, Denial("malformed_key"))
        prefix, secret_hash = split
        # Unknown keys must not push existing ones out of the cache.
        is_live = self._holders.has(prefix) or await self._lookup.exists(prefix)
        holder = await self._holders.get(prefix) if is_live else None
        if holder is None:
            raise UnauthenticatedError(_NO_SUCH_KEY, Denial("unknown_key"))
        if not hmac.compare_digest(secret_hash, holder.secret_hash):
            denial = Denial("wrong_secret", prefix, holder.caller.tenant)
            raise UnauthenticatedError(_NO_SUCH_KEY, denial)
        self._used.add(prefix)
        return holder.caller

    def forget(self, prefix: str) -> None:
        """Read the key from the database again at its next use, because it changed."""
        self._holders.forget(prefix)
        self._lookup.forget(prefix)

    async def write_used(self) -> None:
        """Store in one statement which keys were used since the last call."""
        used, self._used = self._used, set()
        if not used:
            return
        try:
            await self._touch(sorted(used))
        except (Exception, asyncio.CancelledError):
            self._used |= used
            raise


def _ttl(found: _Holder | None) -> float:
    if found is None:
        return UNKNOWN_TTL
    return KEY_TTL if found.lives is None else min(KEY_TTL, found.lives)


class TokenSigner:
    """Signs and verifies the tokens in URLs with the secrets that are stored in Postgres."""

    def __init__(
        self,
        read: Callable[[str, bytes], Awaitable[list[bytes]]],
        purpose: str = CALLBACK,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._purpose = purpose
        self._monotonic = monotonic
        self._looked_again = -SECRETS_RETRY

        async def live(purpose: str) -> list[bytes]:
            return await read(purpose, secrets.token_bytes(32))

        self._secrets = Cache(live, ttl=lambda _: SECRETS_TTL, monotonic=monotonic, limit=1)

    def forget(self) -> None:
        """Read the secrets again at the next use, because they changed."""
        self._secrets.clear()

    async def sign(self, address: Address, expires_at: float, source: str = "") -> str:
        """Sign a token for an address; `source` limits it to the answer of one resource."""
        live = await self._secrets.get(self._purpose)
        return sign(address, expires_at, live[0], self._purpose, source)

    async def caller(self, token: str, now: float) -> Caller:
        """Return the caller that a token authenticates.

        Raises:
            UnauthenticatedError: The token is forged or expired.
        """
        purpose = self._purpose
        holder = verify(token, now, await self._secrets.get(purpose), purpose)
        if holder is None and self._may_look_again():
            # Another replica may already sign with a secret that is new here.
            holder = verify(token, now, await self._secrets.refresh(purpose), purpose)
        if holder is None:
            detail = f"this {purpose} token is forged, broken or over"
            raise UnauthenticatedError(detail, Denial("token"))
        address = holder.address
        return Caller(address.tenant, frozenset(), address=address, source=holder.source)

    def _may_look_again(self) -> bool:
        now = self._monotonic()
        if now - self._looked_again < SECRETS_RETRY:
            return False
        self._looked_again = now
        return True
