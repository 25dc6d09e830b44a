"""The settings themselves: name, type, default and what people are told of each."""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from core.events.event_type import Admission
from core.shared.config import Placement
from core.shared.kafka_config import CompletionPolicy, StartOffset

PREFIX = "MUSTER_"

_BROKER = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s,:\[\]/]+):\d{1,5}"
_BROKERS = rf"^{_BROKER}(?:,{_BROKER})*$"

Count = Annotated[int, Field(ge=1)]
Halved = Annotated[int, Field(ge=2)]  # a tenant has half
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
# With room for the longest name of a tenant.
TopicTemplate = Annotated[
    str,
    Field(
        pattern=r"^(?:[A-Za-z0-9._-]{1,249}|[A-Za-z0-9._-]{0,90}\{tenant\}[A-Za-z0-9._-]{0,90})$"
    ),
]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Bytes = Annotated[int, Field(ge=1024)]
# Postgres counts to 2^63.
Limit = Annotated[int, Field(ge=0, lt=2**62)]


def _usual_shards() -> int:
    """One per two cores: a shard, Postgres writing for it and the ingress keep two busy.

    More of them share the same cores and commit in smaller groups. In a container the cores this
    process may use are fewer than the machine's.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, cores // 2)


class SettingFields(BaseSettings):
    """All settings, one field each. A flag goes before a variable, a variable before `.env`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=".env",
        env_ignore_empty=True,
        frozen=True,
        extra="ignore",
        validate_default=True,
    )

    # Where it runs
    host: str = Field("127.0.0.1", description="Address the HTTP API listens on.", min_length=1)
    port: int = Field(8000, description="Port the HTTP API listens on.", ge=1, le=65_535)
    public_url: str | None = Field(
        None,
        description="Address others reach the HTTP API at; callback URLs begin with it. "
        "Default: http://host:port.",
        pattern=r"^https?://[^\s/?#]+[^\s?#]*$",
    )
    data_dir: Path = Field(
        Path(".muster"), description="Folder of the embedded PostgreSQL and of the instance."
    )
    database_url: SecretStr | None = Field(
        None, description="PostgreSQL to use (postgresql://…). Default: the embedded server."
    )
    secret_key: SecretStr | None = Field(
        None,
        description="Key that secrets are encrypted under (base64 of 32 bytes); after a comma, "
        "older ones that still decrypt. Default: the file secret_key of the data folder, made at "
        "the first start. Required on a cluster.",
    )
    dashboard: bool = Field(False, description="Start Ray's dashboard, on loopback only.")
    namespace: str = Field("muster", description="Ray namespace of the actors.", min_length=1)

    # How much of it
    shards: Count = Field(
        default_factory=_usual_shards,
        description="Shards that host correlations. Default: one per two cores.",
    )
    placement: Placement = Field(
        Placement.SHARDED,
        description="Where a correlation lives: sharded, or dedicated (a Ray actor each).",
    )
    dedicated_limit: Count = Field(
        50, description="Most Ray actors that placement dedicated makes; each is a process."
    )
    ingress_replicas: Count = Field(1, description="Replicas of the HTTP ingress.")

    # Memory and load
    hot_limit: Count = Field(200_000, description="Most correlations in one shard's memory.")
    hot_bytes: Bytes = Field(
        512 * 1024 * 1024,
        description="Most bytes that correlations hold in one shard's memory, by estimate.",
    )
    idle_after: Seconds = Field(
        60.0, description="Seconds without a message after which a correlation leaves memory."
    )
    pending_limit: Count = Field(
        20_000,
        description="Most messages that may wait for one shard; more get 429. While others send "
        "too, a tenant has half of them at most.",
    )
    pending_bytes: Bytes = Field(
        256 * 1024 * 1024,
        description="Most bytes of messages that may wait for one shard; more get 429. While "
        "others send too, a tenant has half of them at most.",
    )
    flush_limit: Count = Field(2_000, description="Most correlations written by one flush.")
    log_limit: Count = Field(
        256,
        description="Most entries in the log of one correlation; beyond that, duplicates and late "
        "events are refused.",
    )
    early_limit: Count = Field(
        256,
        le=1_000,
        description="Most events kept for ids that nobody has registered; more are refused as "
        "too_many_early.",
    )
    early_bytes: Bytes = Field(
        4 * 1024 * 1024,
        le=16 * 1024 * 1024,
        description="Most bytes of these events together.",
    )
    result_limit: Bytes = Field(
        8 * 1024 * 1024,
        description="Most bytes that all events of one wait have together; one that exceeds it is "
        "refused as too_large_together.",
    )
    spec_limit: Bytes = Field(
        64 * 1024,
        description="Largest registration of a wait in bytes, apiCall.body included; more "
        "gets 413.",
    )
    max_ongoing_requests: Count = Field(
        15_000, description="Most requests and streams Serve lets into one replica."
    )
    max_queued_requests: Count = Field(
        1_000, description="Most requests that may queue before one replica; more get 429."
    )
    request_limit: Halved = Field(
        4_000,
        description="Most requests under way in one replica; a tenant has half of them at most. "
        "More get 429.",
    )
    stream_limit: Halved = Field(
        10_000,
        description="Most streams and long polls held open by one replica; a tenant has half of "
        "them at most. More get 429.",
    )
    max_body: Bytes = Field(1_048_576, description="Largest request body in bytes; more gets 413.")
    body_budget: Bytes = Field(
        128 * 1024 * 1024,
        description="Most bytes of request bodies one replica holds at once; a tenant has half of "
        "them at most. More get 429.",
    )
    answer_budget: Bytes = Field(
        128 * 1024 * 1024,
        description="Most bytes of answers of more than 64 kB that one replica holds until they "
        "are read; a tenant has half of them at most. More get 429.",
    )
    source_connections: Count | None = Field(
        None,
        description="Most connections that HAProxy takes from one address; more are closed. "
        "Default: half of all that it takes, and no bound for loopback.",
    )

    # Times
    request_timeout: Seconds = Field(
        10.0,
        description="Seconds a request waits for shards and Postgres before it gets 503; and that "
        "its body may take to come before it gets 408.",
    )
    heartbeat: Seconds = Field(15.0, description="Seconds between comments on a quiet stream.")
    early_ttl: Seconds = Field(
        86_400.0, description="Seconds an event is kept that came before its wait or was refused."
    )
    retention: Seconds = Field(
        7 * 86_400.0,
        description="Seconds ended waits, dead letters, events and ended deliveries are kept.",
    )
    token_grace: Seconds = Field(
        3_600.0,
        description="Seconds after a wait's end or deadline for which its callback URLs are heard.",
    )
    audit_retention: Seconds = Field(
        365 * 86_400.0, description="Seconds for which changes of keys and secrets are remembered."
    )
    timer_horizon: Seconds = Field(
        5.0, description="Seconds ahead for which the timer holds deadlines in memory."
    )
    timer_tick: Seconds = Field(0.05, description="Seconds between two looks of the timer.")
    sweep_every: Seconds = Field(
        10.0, description="Seconds between sweeps for stranded and expired rows."
    )

    # Quotas of a tenant
    tenant_rows_per_day: Limit = Field(
        1_000_000_000,
        description="Most rows a tenant stores a day (waits, events, deliveries, dead letters); "
        "more get 429. 0: no limit.",
    )
    tenant_bytes_per_day: Limit = Field(
        500_000_000_000,
        description="Most bytes a tenant stores a day; more get 429. 0: no limit.",
    )
    tenant_stored_rows: Limit = Field(
        2_000_000_000,
        description="Most rows of a tenant that are kept; more get 507. 0: no limit.",
    )
    tenant_stored_bytes: Limit = Field(
        1_000_000_000_000,
        description="Most bytes of a tenant that are kept; more get 507. 0: no limit.",
    )
    tenant_keys: Limit = Field(1_000, description="Most API keys of a tenant. 0: no limit.")
    tenant_resources: Limit = Field(10_000, description="Most resources of a tenant. 0: no limit.")
    tenant_event_types: Limit = Field(
        10_000, description="Most event types of a tenant. 0: no limit."
    )
    tenant_schemas: Limit = Field(
        50_000, description="Most schemas of a tenant, versions of its types included. 0: no limit."
    )
    tenant_subscriptions: Limit = Field(
        50_000, description="Most subscriptions of a tenant. 0: no limit."
    )
    tenant_topics: Limit = Field(
        1_000, description="Most topics that the waits of a tenant name. 0: no limit."
    )

    # Calls to resources
    call_pools: Count = Field(1, description="Pool actors that call resources.")
    call_limit: Count = Field(
        1_000,
        description="Most calls that one pool has under way; a tenant has half of them at most.",
    )
    call_queue: Count = Field(
        10_000,
        description="Most calls that one pool keeps; a tenant has half of them at most. Gathers "
        "beyond that get 429.",
    )
    call_budget: Bytes = Field(
        64 * 1024 * 1024,
        description="Most bytes of requests that one pool keeps, and that it has under way; a "
        "tenant has half of them at most. Gathers beyond that get 429.",
    )
    call_networks: str | None = Field(
        None,
        description="Networks that may be called beside public addresses (10.1.0.0/16,loopback). "
        "Default: none; loopback where HOST and PUBLIC_URL are on loopback.",
    )
    call_ports: str = Field(
        "", description="Ports that may be called (80,443,8000-8100). Default: all."
    )
    journal_urls: str = Field(
        "",
        description="Addresses of the journal resources, separated by commas. "
        "Default: each tenant's resources resource-1, resource-2 and resource-3.",
    )

    # Events
    event_types: Admission = Field(
        Admission.OPEN,
        description="Which types events may have: open (any), or registered (others are refused).",
    )

    # Dispatch
    pool_limit: Count = Field(
        20, description="Most dispatch pools, of all tenants; of one, half. Each is a process."
    )
    dispatch_buffer: Count = Field(
        10_000, description="Most jobs that one dispatch pool holds in memory; the rest waits."
    )
    dispatch_bytes: Bytes = Field(
        67_108_864,
        description="Bytes of payloads past which a dispatch pool takes no further job at once.",
    )
    dispatch_poll: Seconds = Field(
        2.0, description="Seconds between a pool's looks for jobs that were not handed to it."
    )
    target_limit: Count = Field(
        100,
        description="Most deliveries of one tenant that a pool has under way to one server.",
    )
    stale_after: Seconds = Field(
        900.0, description="Seconds after which a job is found again that no pool has touched."
    )
    disable_after: Seconds = Field(
        5 * 86_400.0,
        description="Seconds of nothing but failures after which a subscription is paused.",
    )
    sample_receiver: bool | None = Field(
        None,
        description="Whether /api/sample/webhook takes deliveries to try them on. "
        "Default: true where HOST and PUBLIC_URL are on loopback.",
    )

    # Kafka
    kafka_bootstrap: str | None = Field(
        None,
        description="Kafka brokers (host:port,…). Default: none; events come in by HTTP only.",
        pattern=_BROKERS,
    )
    kafka_topics: str = Field(
        "",
        description="Topics to read beside those that waits name: names and ^patterns, separated by"
        " commas; each may end in =TENANT.",
    )
    kafka_tenant: str = Field(
        "default", description="Tenant whose events are on topics without =TENANT.", min_length=1
    )
    kafka_group: str = Field("muster", description="Consumer group.", min_length=1)
    kafka_start: StartOffset = Field(
        StartOffset.EARLIEST, description="Where a topic is begun: earliest or latest."
    )
    kafka_ingest: Count = Field(1, description="Ingest actors that share the partitions.")
    kafka_batch: Count = Field(2_000, description="Most records that are read at once.")
    kafka_completions: CompletionPolicy = Field(
        CompletionPolicy.ASKED,
        description="Which waits tell Kafka of their end: asked (those that say so) or all.",
    )
    kafka_completion_topic: TopicTemplate = Field(
        "muster.correlation.completed",
        description="Topic that is told of ends; {tenant} in it gives each tenant one of its own.",
    )
    kafka_dead_letter_topic: Topic | None = Field(
        None, description="Topic that gets a copy of each dead letter. Default: none."
    )
    kafka_client_id: str = Field(
        "muster", description="Name under which the Kafka brokers see Muster.", min_length=1
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT",
        description="How the brokers are spoken to: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "PLAIN", description="How the password is shown: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."
    )
    kafka_sasl_username: str | None = Field(None, description="User name for SASL.")
    kafka_sasl_password: SecretStr | None = Field(None, description="Password for SASL.")
    kafka_tls_ca: Path | None = Field(
        None, description="File of the authorities (PEM) that sign the brokers' certificates."
    )
    kafka_tls_certificate: Path | None = Field(
        None, description="File of our own certificate (PEM), where brokers ask for one."
    )
    kafka_tls_key: Path | None = Field(
        None, description="File of the private key (PEM) of our own certificate."
    )
    kafka_jars: Path | None = Field(
        None,
        description="Folder of the embedded Kafka's jars. Default: ~/.cache/muster/kafka-VERSION.",
    )

    # Logs
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Least level that is logged."
    )
    log_json: bool = Field(True, description="Log as JSON lines; false: as text for people.")
