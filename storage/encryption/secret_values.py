"""Secrets as their columns keep them: encrypted where there is one, plain where it is older."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from core.gathers.gather import GatherSpec, Resource
from core.shared.address import Address
from storage.encryption.cipher import Location, is_encrypted, key_ring

_object = msgspec.json.Decoder(dict[str, Any])
_text = msgspec.json.Decoder(str)


class _ResourceSecrets(msgspec.Struct, frozen=True, omit_defaults=True):
    """What of a resource is secret."""

    headers: dict[str, str] = {}
    authorization: str | None = None

    def __repr__(self) -> str:
        return "_ResourceSecrets(…)"


_resource_secrets = msgspec.json.Decoder(_ResourceSecrets)


def webhook_secret_at(tenant: int, subscription_id: str) -> Location:
    """Where what signs the deliveries of a subscription is kept."""
    return Location(tenant, "webhook_secrets", subscription_id, "secret")


def signing_secret_at(purpose: str) -> Location:
    """Where what signs tokens is kept; it belongs to no tenant."""
    return Location(0, "signing_secrets", purpose, "secret")


def subscription_at(tenant: int, subscription_id: str, column: str) -> Location:
    """Where headers and auth of a subscription are kept."""
    return Location(tenant, "subscriptions", subscription_id, column)


def job_at(tenant: int, job_id: str, column: str) -> Location:
    """Where headers and auth of a job are kept."""
    return Location(tenant, "dispatch_jobs", job_id, column)


def resource_at(tenant: int, name: str) -> Location:
    """Where the secrets of a registered resource are kept."""
    return Location(tenant, "resources", name, "definition")


def inline_resource_at(address: Address, name: str) -> Location:
    """Where the secrets of a resource are kept that came with a gather."""
    return Location(address.tenant, "wait_state_events", f"{address.key.hex()}/{name}", "payload")


def encrypt_bytes(secret: bytes, location: Location) -> bytes:
    """For a bytea column."""
    return key_ring().encrypt(secret, location).encode()


def decrypt_bytes(raw: bytes, location: Location) -> bytes:
    """Read what `encrypt_bytes` wrote, or the secret itself."""
    if not is_encrypted(raw):
        return raw
    return key_ring().decrypt(raw.decode(errors="replace"), location)


def encrypt_map(value: dict[str, str] | None, location: Location) -> str | None:
    """For a json column: a map becomes a JSON string. What is empty stays as it is."""
    if not value:
        return None if value is None else "{}"
    plain = msgspec.json.encode(value)
    return f'"{key_ring().encrypt(plain, location)}"'


def decrypt_map(raw: str | None, location: Location) -> dict[str, Any]:
    """Read what `encrypt_map` wrote, or the map itself."""
    if not raw:
        return {}
    if not raw.startswith('"'):
        return _object.decode(raw)
    return _object.decode(key_ring().decrypt(_text.decode(raw), location))


def encrypt_resource(resource: Resource, location: Location) -> Resource:
    """Return the same resource with its secrets in `encrypted`; itself, if it has none."""
    if not resource.headers and resource.authorization is None:
        return resource
    plain = msgspec.json.encode(_ResourceSecrets(resource.headers, resource.authorization))
    return replace(
        resource,
        headers={},
        authorization=None,
        encrypted=key_ring().encrypt(plain, location),
    )


def decrypt_resource(resource: Resource, location: Location) -> Resource:
    """Return the resource that `encrypt_resource` was given."""
    if resource.encrypted is None:
        return resource
    plain = key_ring().decrypt(resource.encrypted, location)
    secrets = _resource_secrets.decode(plain)
    return replace(
        resource,
        headers=secrets.headers,
        authorization=secrets.authorization,
        encrypted=None,
    )


def encrypt_gather_spec(asked: GatherSpec, address: Address) -> GatherSpec:
    """Return the same request with the secrets of its own resources encrypted."""
    return _with_inline(asked, address, encrypt_resource)


def decrypt_gather_spec(asked: GatherSpec, address: Address) -> GatherSpec:
    """Return the request that `encrypt_asked` was given."""
    return _with_inline(asked, address, decrypt_resource)


def _with_inline(
    asked: GatherSpec, address: Address, change: Callable[[Resource, Location], Resource]
) -> GatherSpec:
    if all(ask.inline is None for ask in asked.asks):
        return asked
    asks = tuple(
        ask
        if ask.inline is None
        else replace(ask, inline=change(ask.inline, inline_resource_at(address, ask.name)))
        for ask in asked.asks
    )
    return replace(asked, asks=asks)
