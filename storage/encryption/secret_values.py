"""Converts secrets to and from their columns; values older than encryption are read as plain."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from core.gathers.gather import GatherSpec, Resource
from core.records.record import RecordAddress
from core.shared.address import Address
from storage.encryption.cipher import Location, is_encrypted, key_ring

_object = msgspec.json.Decoder(dict[str, Any])
_text = msgspec.json.Decoder(str)


class _ResourceSecrets(msgspec.Struct, frozen=True, omit_defaults=True):
    headers: dict[str, str] = {}
    authorization: str | None = None

    def __repr__(self) -> str:
        return "_ResourceSecrets(…)"


_resource_secrets = msgspec.json.Decoder(_ResourceSecrets)


def webhook_secret_at(tenant: int, subscription_id: str) -> Location:
    return Location(tenant, "webhook_secrets", subscription_id, "secret")


def signing_secret_at(purpose: str) -> Location:
    """Locate the secret that signs tokens; it belongs to no tenant."""
    return Location(0, "signing_secrets", purpose, "secret")


def subscription_at(tenant: int, subscription_id: str, column: str) -> Location:
    return Location(tenant, "subscriptions", subscription_id, column)


def job_at(tenant: int, job_id: str, column: str) -> Location:
    return Location(tenant, "dispatch_jobs", job_id, column)


def resource_at(tenant: int, name: str) -> Location:
    return Location(tenant, "resources", name, "definition")


def record_field_at(tenant: int, collection_no: int, record_id: str, field: str) -> Location:
    return Location(tenant, "records", f"{collection_no}/{record_id}", field)


def inline_resource_at(address: Address, name: str) -> Location:
    """Locate the secrets of a resource that is defined within a gather."""
    return Location(address.tenant, "wait_state_events", f"{address.key.hex()}/{name}", "payload")


def encrypt_record_field(address: RecordAddress, field: str, text: str) -> str:
    """Encrypt a value before it leaves the process that was given it."""
    location = record_field_at(address.tenant, address.collection_no, address.record_id, field)
    return key_ring().encrypt(text.encode(), location)


def encrypt_bytes(secret: bytes, location: Location) -> bytes:
    """Encrypt for a bytea column."""
    return key_ring().encrypt(secret, location).encode()


def decrypt_bytes(raw: bytes, location: Location) -> bytes:
    """Decrypt what `encrypt_bytes` returned; return a plain secret unchanged."""
    if not is_encrypted(raw):
        return raw
    return key_ring().decrypt(raw.decode(errors="replace"), location)


def encrypt_map(value: dict[str, str] | None, location: Location) -> str | None:
    """Encrypt for a json column, into a JSON string. An empty map stays as it is."""
    if not value:
        return None if value is None else "{}"
    plain = msgspec.json.encode(value)
    return f'"{key_ring().encrypt(plain, location)}"'


def decrypt_map(raw: str | None, location: Location) -> dict[str, Any]:
    """Decrypt what `encrypt_map` returned; return a plain map unchanged."""
    if not raw:
        return {}
    if not raw.startswith('"'):
        return _object.decode(raw)
    return _object.decode(key_ring().decrypt(_text.decode(raw), location))


def encrypt_resource(resource: Resource, location: Location) -> Resource:
    """Move the secrets of a resource into `encrypted`; return it unchanged if it has none."""
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
    """Restore the resource that `encrypt_resource` was given."""
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


def encrypt_gather_spec(spec: GatherSpec, address: Address) -> GatherSpec:
    """Encrypt the secrets of the resources that are defined within the gather."""
    return _with_inline(spec, address, encrypt_resource)


def decrypt_gather_spec(spec: GatherSpec, address: Address) -> GatherSpec:
    """Restore the gather that `encrypt_gather_spec` was given."""
    return _with_inline(spec, address, decrypt_resource)


def _with_inline(
    spec: GatherSpec, address: Address, change: Callable[[Resource, Location], Resource]
) -> GatherSpec:
    if all(ask.inline is None for ask in spec.asks):
        return spec
    asks = tuple(
        ask
        if ask.inline is None
        else replace(ask, inline=change(ask.inline, inline_resource_at(address, ask.name)))
        for ask in spec.asks
    )
    return replace(spec, asks=asks)
