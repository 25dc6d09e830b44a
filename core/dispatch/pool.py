"""Dispatch pools: the rate and the concurrency that deliveries share."""

from enum import StrEnum

from core.shared.refusal import CONFLICT, FORBIDDEN, NOT_FOUND, Refusal

DEFAULT_POOL = "default"  # the anchor's, for deliveries that name no pool
DEFAULT_CONCURRENCY = 10
MAX_RATE = 10_000_000
MAX_CONCURRENCY = 10_000


class PoolStatus(StrEnum):
    """Whether a pool delivers, waits, or is out of use."""

    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"
    ARCHIVED = "ARCHIVED"


class PoolRefusal(Refusal):
    """Why a pool cannot be created, changed or archived."""

    POOL_NOT_FOUND = NOT_FOUND, "there is no dispatch pool with this id or code"
    CODE_EXISTS = CONFLICT, "a dispatch pool has this code; if it is archived, activate it"
    CODE_IS_RESERVED = CONFLICT, "this is the code of the shared default pool: choose another code"
    POOL_ALREADY_ARCHIVED = CONFLICT, "this dispatch pool is archived already"
    POOL_ARCHIVED = CONFLICT, "this dispatch pool is archived: activate it first"
    POOL_IN_USE = CONFLICT, "active subscriptions or waiting deliveries use this dispatch pool"
    POOL_IS_DEFAULT = CONFLICT, "this is the default pool and cannot be archived"
    POOL_LIMIT = CONFLICT, "no dispatch pool is left: archive one, or raise MUSTER_POOL_LIMIT"
    ANCHORS_POOL = FORBIDDEN, "this dispatch pool is the anchor's: others can use but not change it"


def refuse_code(code: str, *, is_anchors: bool) -> PoolRefusal | None:
    # A tenant's pool would hide the anchor's pool of the same code.
    is_reserved = code == DEFAULT_POOL and not is_anchors
    return PoolRefusal.CODE_IS_RESERVED if is_reserved else None


def refuse_change(status: PoolStatus) -> PoolRefusal | None:
    return PoolRefusal.POOL_ARCHIVED if status is PoolStatus.ARCHIVED else None


def refuse_archive(status: PoolStatus, *, is_default: bool, is_used: bool) -> PoolRefusal | None:
    if status is PoolStatus.ARCHIVED:
        return PoolRefusal.POOL_ALREADY_ARCHIVED
    if is_default:
        return PoolRefusal.POOL_IS_DEFAULT
    return PoolRefusal.POOL_IN_USE if is_used else None
