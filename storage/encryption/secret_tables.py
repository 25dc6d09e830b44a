"""The tables that hold secrets: how to walk each by its key, and which columns are secret."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import msgspec

from core.gathers.gather import Resource
from storage.encryption import secret_values
from storage.encryption.cipher import (
    DamagedSecretError,
    Location,
    is_ciphertext,
    is_encrypted,
    key_id_of,
    key_ring,
)

_resource = msgspec.json.Decoder(Resource)
_values = msgspec.json.Decoder(dict[str, str])

StoredSecret: TypeAlias = Any
"""The value of a column: bytes, JSON as text, or null."""

PLAIN = "plain"
"""Stands for the id of a key where a secret is not encrypted."""


@dataclass(frozen=True, slots=True)
class SecretColumn:
    """How to find the key of a value, and how to encrypt the value again."""

    name: str
    find_key: Callable[[StoredSecret], str | None]
    """The key's id, PLAIN, or None if there is no secret."""
    renew: Callable[[StoredSecret, Location], StoredSecret]


@dataclass(frozen=True, slots=True)
class SecretTable:
    """A table, and its statements in storage/encryption/keys.sql."""

    name: str
    queries: str
    """The stem of the names of its queries."""
    first: tuple[Any, ...]
    """A key that sorts before all others."""
    locate: tuple[str | None, str]
    """The columns that name the tenant, if there is one, and the row."""
    columns: tuple[SecretColumn, ...]

    def location(self, row: Any, column: SecretColumn) -> Location:
        tenant, row_name = self.locate
        return Location(row[tenant] if tenant else 0, self.name, row[row_name], column.name)


def _key_of_bytes(raw: bytes) -> str | None:
    return key_id_of(raw.decode(errors="replace")) if is_encrypted(raw) else PLAIN


def _renew_bytes(raw: bytes, location: Location) -> bytes:
    return secret_values.encrypt_bytes(secret_values.decrypt_bytes(raw, location), location)


def _key_of_map(raw: str | None) -> str | None:
    if raw is None or raw in {"{}", "null"}:
        return None
    return key_id_of(raw[1:-1]) if raw.startswith('"') else PLAIN


def _renew_map(raw: str | None, location: Location) -> str | None:
    if _key_of_map(raw) is None:
        return raw
    return secret_values.encrypt_map(secret_values.decrypt_map(raw, location), location)


def _key_of_resource(raw: str) -> str | None:
    found = _resource.decode(raw)
    if found.encrypted is not None:
        return key_id_of(found.encrypted)
    return PLAIN if found.headers or found.authorization is not None else None


def _renew_resource(raw: str, location: Location) -> str:
    plain = secret_values.decrypt_resource(_resource.decode(raw), location)
    return msgspec.json.encode(secret_values.encrypt_resource(plain, location)).decode()


def _key_of_record(raw: str | None) -> str | None:
    """Return a key of a record's secret values: one that is not the current, if there is any."""
    keys = {_key_of_value(value) for value in _values.decode(raw or "{}").values()}
    return min(keys, key=lambda key: (key == key_ring().current, key), default=None)


def _key_of_value(value: str) -> str:
    return (key_id_of(value) if is_ciphertext(value) else None) or PLAIN


def _renew_record(raw: str, location: Location) -> str:
    values = _values.decode(raw)
    renewed = {
        name: _renew_value(value, replace(location, column=name)) for name, value in values.items()
    }
    return raw if renewed == values else msgspec.json.encode(renewed).decode()


def _renew_value(value: str, location: Location) -> str:
    """Encrypt a value that is plain or under another key.

    A field may have got a text of a caller before it became ENCRYPTED. One that no key decrypts
    stays as it is, and keeps no key in use.
    """
    ring = key_ring()
    if not is_ciphertext(value):
        return ring.encrypt(value.encode(), location)
    if key_id_of(value) == ring.current:
        return value
    try:
        return ring.encrypt(ring.decrypt(value, location), location)
    except DamagedSecretError:
        return value


_MAPS = tuple(SecretColumn(name, _key_of_map, _renew_map) for name in ("headers", "auth"))
_SECRET = (SecretColumn("secret", _key_of_bytes, _renew_bytes),)

_RECORD = (SecretColumn("data", _key_of_record, _renew_record),)
_RESOURCE = (SecretColumn("definition", _key_of_resource, _renew_resource),)

SECRET_TABLES = (
    SecretTable("signing_secrets", "signing_secrets", (-1,), (None, "purpose"), _SECRET),
    SecretTable(
        "webhook_secrets",
        "webhook_secrets",
        (-1, "", -1),
        ("tenant_id", "subscription_id"),
        _SECRET,
    ),
    SecretTable(
        "subscriptions", "subscription_secrets", (-1, ""), ("tenant_id", "subscription_id"), _MAPS
    ),
    SecretTable("resources", "resource_secrets", (-1, ""), ("tenant_id", "name"), _RESOURCE),
    SecretTable("dispatch_jobs", "job_secrets", (-1, ""), ("tenant_id", "job_id"), _MAPS),
    SecretTable("records", "record_secrets", (-1, -1, ""), ("tenant_id", "place"), _RECORD),
)
