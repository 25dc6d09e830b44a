"""The address of a correlation: tenant, execution id and correlation id."""

import hashlib

import msgspec

ID_LENGTH = 255
_TOO_LONG = 10 ** (ID_LENGTH - 1)
_NODE_NAMESPACE = bytes.fromhex("6d7573746572500080006e6f64650000")


class Address(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The three ids that an event must name to reach a correlation."""

    tenant: int
    execution_id: str
    correlation_id: str
    key: bytes = b""
    """Sixteen bytes that stand for this address in Postgres and in memory.

    Computed where the correlation is first named, and passed on from there.
    """

    def __post_init__(self) -> None:
        if not self.key:
            key = _key_of(self.tenant, self.execution_id, self.correlation_id)
            msgspec.structs.force_setattr(self, "key", key)

    @property
    def scoped_id(self) -> str:
        """The execution-scoped correlation id that people see."""
        return f"{self.execution_id}:{self.correlation_id}"


def correlation_prefix(tenant: int, correlation_id: str) -> bytes:
    """Return the half of a key that all executions of one correlation id share."""
    return hashlib.blake2b(_shared(tenant, correlation_id), digest_size=8).digest()


def shard_of(key: bytes, shards: int) -> int:
    return int.from_bytes(key[8:16], "big") % shards


def correlation_id_for_node(tenant: int, execution_id: str, node_id: str) -> str:
    """Make the correlation id of a node in an execution: the same on every retry.

    It is a name-based UUID, version 5 of RFC 9562.
    """
    name = f"{tenant}\x00{execution_id}\x00{node_id}".encode()
    raw = bytearray(hashlib.sha1(_NODE_NAMESPACE + name, usedforsecurity=False).digest()[:16])
    raw[6] = raw[6] & 0x0F | 0x50
    raw[8] = raw[8] & 0x3F | 0x80
    return "-".join(
        raw[start:end].hex() for start, end in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 16))
    )


def check_id(value: object) -> str | None:
    """Return the id as text, or None if the value cannot be an id."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < _TOO_LONG else None
    if not isinstance(value, str) or not 0 < len(value) <= ID_LENGTH:
        return None
    return value if value.isprintable() and value == value.strip() else None


def id_problem(value: object) -> str:
    """Say what is wrong with a value that cannot be an id."""
    if value == "":
        return "is empty"
    if isinstance(value, bool) or not isinstance(value, str | int):
        return "is neither a text nor a whole number"
    if isinstance(value, str) and len(value) <= ID_LENGTH:
        return "has a space at an end or an unprintable character"
    return f"is longer than {ID_LENGTH} characters"


def _key_of(tenant: int, execution_id: str, correlation_id: str) -> bytes:
    """Hash the address so that the first half depends on tenant and correlation id only.

    So one index also answers "does this correlation id exist under another execution?".
    """
    digest = hashlib.blake2b(_shared(tenant, correlation_id), digest_size=8)
    shared = digest.digest()
    digest.update(_framed(execution_id))
    return shared + digest.digest()


def _shared(tenant: int, correlation_id: str) -> bytes:
    return tenant.to_bytes(8, "big") + _framed(correlation_id)


def _framed(part: str) -> bytes:
    # The length goes first, so that no two lists of parts encode alike.
    raw = part.encode()
    return len(raw).to_bytes(4, "big") + raw
