import asyncio

import pytest

from core.access.permissions import Permission, compose_key, hash_secret
from core.shared.address import Address
from core.shared.errors import Denial, ForbiddenError, UnauthenticatedError
from serve_app.http.auth import (
    KEY_TTL,
    SECRETS_TTL,
    UNKNOWN_TTL,
    ApiKeyVerifier,
    Caller,
    TokenSigner,
)
from storage.access.keys import Credential

ADDRESS = Address(7, "run", "order")


class Access:
    """The tables of keys and secrets, as far as these tests go."""

    def __init__(self) -> None:
        self.now = 100.0
        self.credentials = {
            "abc": Credential(7, "k", hash_secret("s_1"), frozenset({"waits:read"}))
        }
        self.found: list[str] = []
        self.looked_up: list[list[str]] = []
        self.touched: list[list[str]] = []
        self.away = False
        self.secrets: list[bytes] = []
        self.secret_readings = 0

    async def find(self, prefix: str) -> Credential | None:
        self.found.append(prefix)
        return self.credentials.get(prefix)

    async def find_live(self, prefixes: list[str]) -> set[str]:
        self.looked_up.append(prefixes)
        return set(prefixes) & set(self.credentials)

    async def touch(self, prefixes: list[str]) -> None:
        if self.away:
            raise ConnectionResetError
        self.touched.append(prefixes)

    async def signing_secrets(self, purpose: str, fresh: bytes) -> list[bytes]:
        self.secret_readings += 1
        self.secrets = self.secrets or [fresh]
        return list(self.secrets)

    def keys(self) -> ApiKeyVerifier:
        return ApiKeyVerifier(self.find, self.find_live, self.touch, lambda: self.now)

    def tokens(self) -> TokenSigner:
        return TokenSigner(self.signing_secrets, monotonic=lambda: self.now)


GOOD = f"Bearer {compose_key('abc', 's_1')}"


async def test_a_key_stands_for_its_tenant_and_permissions() -> None:
    caller = await Access().keys().caller(GOOD)
    assert (caller.tenant, caller.prefix, caller.address) == (7, "abc", None)
    assert Permission.WAITS_READ in caller.permissions
    assert Permission.WAITS_WRITE not in caller.permissions


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer x",
        "Basic abc",
        "mk_abc_s_1",
        "Bearer mk_abc_wrong",
        "Bearer mk_zzz_s_1",
        "Bearer mk_abc_",
        "Bearer mk_abc_ü",
    ],
)
async def test_anything_else_stands_for_nobody(header: str | None) -> None:
    with pytest.raises(UnauthenticatedError):
        await Access().keys().caller(header)


async def test_a_key_is_looked_up_once_in_a_while() -> None:
    access = Access()
    keys = access.keys()
    for _ in range(10):
        await keys.caller(GOOD)
    assert access.found == ["abc"]


async def test_a_revoked_key_stops_working_in_time() -> None:
    access = Access()
    keys = access.keys()
    await keys.caller(GOOD)
    access.credentials.clear()
    access.now += KEY_TTL
    with pytest.raises(UnauthenticatedError):
        await keys.caller(GOOD)


async def test_a_key_revoked_here_stops_working_at_once() -> None:
    access = Access()
    keys = access.keys()
    await keys.caller(GOOD)
    access.credentials.clear()
    keys.forget("abc")
    with pytest.raises(UnauthenticatedError):
        await keys.caller(GOOD)


async def test_a_new_key_works_soon_even_if_it_was_tried_too_early() -> None:
    access = Access()
    keys = access.keys()
    kept = access.credentials.pop("abc")
    with pytest.raises(UnauthenticatedError):
        await keys.caller(GOOD)
    access.credentials["abc"] = kept
    access.now += UNKNOWN_TTL
    assert (await keys.caller(GOOD)).tenant == 7


async def test_uses_are_written_together_and_survive_an_outage() -> None:
    access = Access()
    keys = access.keys()
    await keys.caller(GOOD)
    access.away = True
    with pytest.raises(ConnectionResetError):
        await keys.write_used()
    access.away = False
    await keys.write_used()
    await keys.write_used()
    assert access.touched == [["abc"]]


async def test_a_failed_proof_is_no_use_of_the_key() -> None:
    access = Access()
    keys = access.keys()
    with pytest.raises(UnauthenticatedError):
        await keys.caller("Bearer mk_abc_wrong")
    await keys.write_used()
    assert access.touched == []


async def test_a_token_stands_for_one_address_and_no_permission() -> None:
    tokens = Access().tokens()
    caller = await tokens.caller(await tokens.sign(ADDRESS, 50.0), now=49.0)
    assert (caller.tenant, caller.address, caller.permissions) == (7, ADDRESS, frozenset())


async def test_a_token_of_one_resource_does_not_speak_for_another() -> None:
    tokens = Access().tokens()
    own = await tokens.caller(await tokens.sign(ADDRESS, 50.0, "resource-1"), now=49.0)
    own.check_source("resource-1")
    with pytest.raises(ForbiddenError, match="resource-1, not of resource-2"):
        own.check_source("resource-2")
    anybody = await tokens.caller(await tokens.sign(ADDRESS, 50.0), now=49.0)
    anybody.check_source("resource-2")


async def test_a_token_that_is_over_or_forged_stands_for_nobody() -> None:
    tokens = Access().tokens()
    token = await tokens.sign(ADDRESS, 50.0)
    for attempt, now in ((token, 50.0), (token[:-1] + "A", 1.0), ("", 1.0), ("ü", 1.0)):
        with pytest.raises(UnauthenticatedError):
            await tokens.caller(attempt, now)


async def test_a_secret_that_another_replica_began_to_use_is_found() -> None:
    access = Access()
    here, there = access.tokens(), access.tokens()
    await here.sign(ADDRESS, 50.0)
    access.secrets.insert(0, b"new")
    assert (await here.caller(await there.sign(ADDRESS, 50.0), now=1.0)).address == ADDRESS


async def test_bad_tokens_do_not_make_postgres_work() -> None:
    access = Access()
    tokens = access.tokens()
    for _ in range(100):
        with pytest.raises(UnauthenticatedError):
            await tokens.caller("bad", now=1.0)
    assert access.secret_readings == 2


async def test_a_retired_secret_is_refused_as_soon_as_its_end_is_heard_of() -> None:
    access = Access()
    tokens = access.tokens()
    token = await tokens.sign(ADDRESS, 50.0)
    access.secrets = [b"new"]
    assert (await tokens.caller(token, now=1.0)).address == ADDRESS, "it has not heard of it"
    tokens.forget()
    with pytest.raises(UnauthenticatedError):
        await tokens.caller(token, now=1.0)


async def test_a_retired_secret_is_refused_soon_even_if_nobody_said_so() -> None:
    access = Access()
    tokens = access.tokens()
    token = await tokens.sign(ADDRESS, 50.0)
    access.secrets = [b"new"]
    access.now += SECRETS_TTL
    with pytest.raises(UnauthenticatedError):
        await tokens.caller(token, now=1.0)


async def test_unknown_keys_do_not_push_known_ones_out() -> None:
    access = Access()
    keys = access.keys()
    await keys.caller(GOOD)
    for number in range(10_001):
        with pytest.raises(UnauthenticatedError):
            await keys.caller(f"Bearer mk_no{number}_x")
    await keys.caller(GOOD)
    assert access.found == ["abc"], "it was still remembered"


async def test_keys_that_there_are_not_are_looked_up_together() -> None:
    access = Access()
    keys = access.keys()
    asked = [asyncio.create_task(keys.caller(f"Bearer mk_no{n}_x")) for n in range(200)]
    asked.append(asyncio.create_task(keys.caller(GOOD)))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(one, UnauthenticatedError) for one in answers) == 200
    assert isinstance(answers[-1], Caller)
    assert len(access.looked_up) <= 2


async def test_why_somebody_is_not_let_in() -> None:
    keys = Access().keys()
    reasons = {
        None: Denial("no_key"),
        "Basic x": Denial("malformed_key"),
        f"Bearer mk_{'p' * 65}_x": Denial("malformed_key"),
        "Bearer mk_zzz_x": Denial("unknown_key"),
        "Bearer mk_abc_x": Denial("wrong_secret", "abc", 7),
    }
    for header, denial in reasons.items():
        with pytest.raises(UnauthenticatedError) as raised:
            await keys.caller(header)
        assert raised.value.denial == denial
