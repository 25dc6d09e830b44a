"""The frozen configuration of actors and replicas. Nothing here reads the environment."""

from dataclasses import dataclass, field
from enum import StrEnum

from core.shared.call_policy import PortRange
from core.shared.kafka_config import KafkaConfig
from core.shared.quotas import QuotaLimits


class Placement(StrEnum):
    """Where a correlation runs: in a shared shard, or in a Ray actor of its own."""

    SHARDED = "sharded"
    DEDICATED = "dedicated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The configuration that all processes of one instance share. Times are in seconds."""

    dsn: str = field(repr=False)
    secret_keys: tuple[bytes, ...] = field(default=(), repr=False)
    """The keys that encrypt secrets, the current one first; empty: those of the file."""
    secret_key_file: str | None = None
    namespace: str = "muster"
    shards: int = 2
    placement: Placement = Placement.SHARDED
    dedicated_limit: int = 50
    hot_limit: int = 200_000
    hot_bytes: int = 512 * 1024 * 1024
    idle_after: float = 60.0
    pending_limit: int = 20_000
    pending_bytes: int = 256 * 1024 * 1024
    flush_limit: int = 2_000
    log_limit: int = 256
    early_ttl: float = 86_400.0
    early_limit: int = 256
    early_bytes: int = 4 * 1024 * 1024
    result_limit: int = 8 * 1024 * 1024
    spec_limit: int = 64 * 1024
    retention: float = 7 * 86_400.0
    token_grace: float = 3_600.0
    audit_retention: float = 365 * 86_400.0
    change_retention: float = 90 * 86_400.0
    request_timeout: float = 10.0
    timer_horizon: float = 5.0
    timer_tick: float = 0.05
    sweep_every: float = 10.0
    max_body: int = 1_048_576
    public_url: str = "http://127.0.0.1:8000"
    log_level: str = "INFO"
    log_json: bool = True
    kafka: KafkaConfig | None = None
    call_pools: int = 1
    call_limit: int = 1_000
    call_queue: int = 10_000
    call_budget: int = 64 * 1024 * 1024
    call_networks: tuple[str, ...] = ()
    call_ports: tuple[PortRange, ...] = ()
    journal_urls: tuple[str, ...] = ()
    dispatch_buffer: int = 10_000
    dispatch_bytes: int = 67_108_864
    dispatch_poll: float = 2.0
    target_limit: int = 100
    stale_after: float = 900.0
    disable_after: float = 5 * 86_400.0
    quotas: QuotaLimits = field(default_factory=QuotaLimits)
