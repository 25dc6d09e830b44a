"""All settings: name, type, default and description of each."""

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
Halved = Annotated[int, Field(ge=2)]  # a tenant may use half
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
# Leaves room for the longest name of a tenant.
TopicTemplate = Annotated[
    str,
    Field(
        pattern=r"^(?:[A-Za-z0-9._-]{1,249}|[A-Za-z0-9._-]{0,90}\{tenant\}[A-Za-z0-9._-]{0,90})$"
    ),
]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Bytes = Annotated[int, Field(ge=1024)]
# Below the maximum of bigint, 2^63.
Limit = Annotated[int, Field(ge=0, lt=2**62)]


def _usual_shards() -> int:
    """Return one shard per two cores: a shard, Postgres and the ingress keep two busy.

    More shards would share the same cores and commit in smaller groups. A container may use fewer
    cores than the machine has.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, cores // 2)


class SettingFields(BaseSettings):
    """One field per setting. A flag takes precedence over a variable, a variable over `.env`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=".env",
        env_ignore_empty=True,
        frozen=True,
        extra="ignore",
        validate_default=True,
        use_attribute_docstrings=True,
    )

    # Where it runs
    host: str = Field("127.0.0.1", min_length=1)
    """Address on which the HTTP API listens."""
    port: int = Field(8000, ge=1, le=65_535)
    """Port on which the HTTP API listens."""
    public_url: str | None = Field(None, pattern=r"^https?://[^\s/?#]+[^\s?#]*$")
    """Base URL at which clients reach the HTTP API; callback URLs begin with it. Default:
    http://HOST:PORT."""
    data_dir: Path = Path(".muster")
    """Folder that holds the embedded PostgreSQL, the embedded Kafka, the secret key and the
    logs."""
    database_url: SecretStr | None = None
    """URL of the PostgreSQL database (postgresql://…). Default: the embedded server."""
    secret_key: SecretStr | None = None
    """Key that encrypts stored secrets (base64 of 32 bytes). Older keys that can still decrypt
    follow it, separated by commas. Default: the file secret_key in the data folder, created at the
    first start. Required on a cluster."""
    dashboard: bool = False
    """Start Ray's dashboard on the loopback interface."""
    namespace: str = Field("muster", min_length=1)
    """Ray namespace of the actors."""

    # How much of it
    shards: Count = Field(default_factory=_usual_shards)
    """Number of shard actors that host correlations. Default: one per two CPU cores."""
    placement: Placement = Placement.SHARDED
    """Where a correlation runs: sharded (many in each shard actor) or dedicated (one Ray actor
    each)."""
    dedicated_limit: Count = 50
    """Maximum number of Ray actors with placement dedicated. Each is a process."""
    ingress_replicas: Count = 1
    """Number of replicas that serve the HTTP API."""

    # Memory and load
    hot_limit: Count = 200_000
    """Maximum number of correlations in the memory of one shard."""
    hot_bytes: Bytes = 512 * 1024 * 1024
    """Maximum estimated size, in bytes, of the correlations in the memory of one shard."""
    idle_after: Seconds = 60.0
    """Seconds without a message after which a correlation is removed from memory. It stays in
    PostgreSQL."""
    pending_limit: Count = 20_000
    """Maximum number of messages queued for one shard; further ones get 429. While several tenants
    send, each may use at most half."""
    pending_bytes: Bytes = 256 * 1024 * 1024
    """Maximum size, in bytes, of the messages queued for one shard; further ones get 429. While
    several tenants send, each may use at most half."""
    flush_limit: Count = 2_000
    """Maximum number of correlations that a shard writes in one statement."""
    log_limit: Count = 256
    """Maximum number of log entries of one correlation; beyond it, duplicate and late events are
    rejected."""
    early_limit: Count = Field(256, le=1_000)
    """Maximum number of events stored for one correlation before its wait is registered; further
    ones are rejected as too_many_early."""
    early_bytes: Bytes = Field(4 * 1024 * 1024, le=16 * 1024 * 1024)
    """Maximum size, in bytes, of the events stored for one correlation before its wait is
    registered."""
    result_limit: Bytes = 8 * 1024 * 1024
    """Maximum size, in bytes, of all events of one wait together; an event beyond it is rejected as
    too_large_together."""
    spec_limit: Bytes = 64 * 1024
    """Maximum size, in bytes, of the registration of a wait, including apiCall.body; larger ones
    get 413."""
    max_ongoing_requests: Count = 15_000
    """Maximum number of requests and streams that Ray Serve admits to one replica."""
    max_queued_requests: Count = 1_000
    """Maximum number of requests queued for one replica; further ones get 429."""
    request_limit: Halved = 4_000
    """Maximum number of concurrent requests in one replica; further ones get 429. A tenant may use
    at most half."""
    stream_limit: Halved = 10_000
    """Maximum number of open streams and long polls in one replica; further ones get 429. A tenant
    may use at most half."""
    max_body: Bytes = 1_048_576
    """Maximum size of a request body in bytes; larger ones get 413."""
    body_budget: Bytes = 128 * 1024 * 1024
    """Maximum size, in bytes, of all request bodies in the memory of one replica; further ones get
    429. A tenant may use at most half."""
    answer_budget: Bytes = 128 * 1024 * 1024
    """Maximum size, in bytes, of all responses above 64 kB that one replica holds until clients
    have read them; further requests get 429. A tenant may use at most half."""
    source_connections: Count | None = None
    """Maximum number of connections that HAProxy accepts from one IP address; further ones are
    closed. Default: half of all connections, and no limit for loopback."""

    # Times
    request_timeout: Seconds = 10.0
    """Seconds that a request waits for shards and PostgreSQL before it gets 503, and that its body
    may take to arrive before it gets 408."""
    heartbeat: Seconds = 15.0
    """Seconds between two comments that keep an idle stream open."""
    early_ttl: Seconds = 86_400.0
    """Seconds for which rejected events, and events that came before their wait, are stored."""
    retention: Seconds = 7 * 86_400.0
    """Seconds for which ended waits, events, ended deliveries and dead letters are stored."""
    token_grace: Seconds = 3_600.0
    """Seconds after the end or deadline of a wait for which its callback URLs are still
    accepted."""
    audit_retention: Seconds = 365 * 86_400.0
    """Seconds for which the audit log of keys and secrets is stored."""
    change_retention: Seconds = 90 * 86_400.0
    """Seconds for which the changes of records are stored, at least; they are removed by whole
    weeks."""
    timer_horizon: Seconds = 5.0
    """Seconds ahead for which the timer loads deadlines into memory."""
    timer_tick: Seconds = 0.05
    """Seconds between two checks of the timer for due deadlines."""
    sweep_every: Seconds = 10.0
    """Seconds between two runs of the cleanup of stranded and expired rows."""

    # Quotas of a tenant
    tenant_rows_per_day: Limit = 1_000_000_000
    """Maximum number of rows that a tenant stores per day (waits, events, deliveries, dead
    letters); further ones get 429. 0: no limit."""
    tenant_bytes_per_day: Limit = 500_000_000_000
    """Maximum number of bytes that a tenant stores per day; further ones get 429. 0: no limit."""
    tenant_stored_rows: Limit = 2_000_000_000
    """Maximum number of rows stored for a tenant; further ones get 507. 0: no limit."""
    tenant_stored_bytes: Limit = 1_000_000_000_000
    """Maximum number of bytes stored for a tenant; further ones get 507. 0: no limit."""
    tenant_keys: Limit = 1_000
    """Maximum number of API keys of a tenant. 0: no limit."""
    tenant_resources: Limit = 10_000
    """Maximum number of resources of a tenant. 0: no limit."""
    tenant_event_types: Limit = 10_000
    """Maximum number of event types of a tenant. 0: no limit."""
    tenant_schemas: Limit = 50_000
    """Maximum number of schemas of a tenant, including the versions of its event types. 0: no
    limit."""
    tenant_subscriptions: Limit = 50_000
    """Maximum number of subscriptions of a tenant. 0: no limit."""
    tenant_topics: Limit = 1_000
    """Maximum number of Kafka topics named by the waits of a tenant. 0: no limit."""
    tenant_collections: Limit = 1_000
    """Maximum number of collections of a tenant, including archived ones. 0: no limit."""

    # Calls to resources
    call_pools: Count = 1
    """Number of call pool actors, which call the resources of gathers."""
    call_limit: Count = 1_000
    """Maximum number of concurrent calls in one call pool. A tenant may use at most half."""
    call_queue: Count = 10_000
    """Maximum number of calls queued in one call pool; gathers beyond it get 429. A tenant may use
    at most half."""
    call_budget: Bytes = 64 * 1024 * 1024
    """Maximum size, in bytes, of the requests queued in one call pool, and of those under way;
    gathers beyond it get 429. A tenant may use at most half."""
    call_networks: str | None = None
    """Networks that Muster may call in addition to public addresses (10.1.0.0/16,loopback).
    Default: none; loopback if both HOST and PUBLIC_URL are loopback addresses."""
    call_ports: str = ""
    """Ports that Muster may call (80,443,8000-8100). Default: all."""
    journal_urls: str = ""
    """URLs of the journal resources, separated by commas. Default: the resources resource-1,
    resource-2 and resource-3 of each tenant."""

    # Events
    event_types: Admission = Admission.OPEN
    """Event types that are accepted: open (any) or registered (events of other types get 422)."""

    # Dispatch
    pool_limit: Count = 20
    """Maximum number of dispatch pools. A tenant may have at most half. Each pool is a process."""
    dispatch_buffer: Count = 10_000
    """Maximum number of jobs in the memory of one dispatch pool; the others wait in PostgreSQL."""
    dispatch_bytes: Bytes = 67_108_864
    """Maximum size, in bytes, of the payloads under way in one dispatch pool; beyond it, the pool
    starts no further job."""
    dispatch_poll: Seconds = 2.0
    """Seconds between two checks of a dispatch pool for jobs of which it was not notified."""
    target_limit: Count = 100
    """Maximum number of concurrent deliveries of one tenant from one dispatch pool to one
    server."""
    stale_after: Seconds = 900.0
    """Seconds after which a job that no dispatch pool has touched is queued again."""
    disable_after: Seconds = 5 * 86_400.0
    """Seconds of failures without a success after which a subscription is paused."""
    sample_receiver: bool | None = None
    """Accept test deliveries at /api/sample/webhook. Default: true if both HOST and PUBLIC_URL are
    loopback addresses."""

    # Kafka
    kafka_bootstrap: str | None = Field(None, pattern=_BROKERS)
    """Addresses of the Kafka brokers (host:port,…). Default: none; events come in by HTTP only."""
    kafka_topics: str = ""
    """Topics to read in addition to those that waits name: names and ^patterns, separated by
    commas. Each may end in =TENANT."""
    kafka_tenant: str = Field("default", min_length=1)
    """Tenant that owns the events of topics without =TENANT."""
    kafka_group: str = Field("muster", min_length=1)
    """Kafka consumer group."""
    kafka_start: StartOffset = StartOffset.EARLIEST
    """Offset at which a new topic is read: earliest or latest."""
    kafka_ingest: Count = 1
    """Number of ingest actors, which share the partitions."""
    kafka_batch: Count = 2_000
    """Maximum number of Kafka messages that are read at once."""
    kafka_completions: CompletionPolicy = CompletionPolicy.ASKED
    """Waits whose end is published to Kafka: asked (those that request it) or all."""
    kafka_completion_topic: TopicTemplate = "muster.correlation.completed"
    """Topic to which the ends of waits are published; {tenant} is replaced by the name of the
    tenant."""
    kafka_change_topic: Topic = "emf.record.changed"
    """Topic to which the changes of records are published."""
    kafka_dead_letter_topic: Topic | None = None
    """Topic to which each dead letter is copied. Default: none."""
    kafka_client_id: str = Field("muster", min_length=1)
    """Client id that Muster sends to the Kafka brokers."""
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Protocol of the connections to the brokers: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    """SASL mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."""
    kafka_sasl_username: str | None = None
    """User name for SASL."""
    kafka_sasl_password: SecretStr | None = None
    """Password for SASL."""
    kafka_tls_ca: Path | None = None
    """File of the certificate authorities (PEM) that sign the brokers' certificates."""
    kafka_tls_certificate: Path | None = None
    """File of the client certificate (PEM), for brokers that require one."""
    kafka_tls_key: Path | None = None
    """File of the private key (PEM) of the client certificate."""
    kafka_jars: Path | None = None
    """Folder of the jars of the embedded Kafka. Default: ~/.cache/muster/kafka-VERSION."""

    # Logs
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Minimum level of log lines: DEBUG, INFO, WARNING or ERROR."""
    log_json: bool = True
    """Write log lines as JSON; false: as text."""
