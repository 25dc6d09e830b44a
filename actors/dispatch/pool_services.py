"""What a dispatch pool uses besides its queue: HTTP, profiles, warnings and notifications."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Self
from urllib.parse import urlsplit

import structlog

from actors.dispatch.delivery_sender import DeliverySender, ProfileKey
from actors.dispatch.subscription_health import SubscriptionHealthMonitor, SubscriptionRef
from actors.dispatch.system_events import SystemEvents
from actors.runtime.directory import Directory
from core.dispatch.attempt import DeliveryAttempt, ErrorType, JobTransition
from core.dispatch.claim import ClaimedJob, DeliveryProfile
from core.dispatch.job import JobStatus
from core.dispatch.target import TargetKey
from core.shared.call_policy import CallPolicy
from core.shared.config import Config
from handlers.http.client import HttpClient
from handlers.http.webhooks import Webhooks
from services.operations.warning_writer import WarningWriter
from services.shared.change_listener import ChangeListener
from storage.dispatch import subscriptions
from storage.operations import warnings
from storage.operations.warnings import NewWarning, Severity
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.clock import DatabaseClock
from storage.postgres.pool import Pool

log = structlog.get_logger("dispatch")


class PoolServices:
    """Everything outside its queue that a pool depends on."""

    def __init__(
        self, config: Config, pool: Pool, clock: DatabaseClock, directory: Directory | None = None
    ) -> None:
        self._config = config
        self._pool = pool
        self.changes = ChangeListener()
        policy = CallPolicy(config.call_networks, config.call_ports)
        self._client = HttpClient(policy, config.max_body)
        sender = DeliverySender(
            self._profiles, Webhooks(self._client, clock.now).send, clock.now, time.monotonic
        )
        self.send, self.prepare = sender.send, sender.prepare
        self.changes.on_tenant_change(ChangeTopic.SUBSCRIPTIONS, sender.forget)
        self._watch = SubscriptionHealthMonitor(
            partial(subscriptions.mark_failing, pool),
            partial(subscriptions.mark_well, pool),
            self._disable,
            clock.now,
            config.disable_after,
        )
        self._events = SystemEvents(
            config, pool, clock, self.changes, directory or Directory(config)
        )
        self._warnings = WarningWriter(partial(warnings.warn, pool))

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.__aexit__(*error)

    async def run_forever(self) -> None:
        await asyncio.gather(
            self.changes.run_forever(self._config.dsn),
            self._watch.run_forever(),
            self._warnings.run_forever(),
        )

    def job_finished(
        self, job: ClaimedJob, step: JobTransition, sent: DeliveryAttempt | None
    ) -> None:
        self._watch.record_delivery(job, sent)
        source = job.subscription_id or job.code
        if sent is not None and sent.error_type is ErrorType.CONFIGURATION:
            self._warn(job.tenant, "CONFIGURATION", source, f"held back: {sent.error}", grave=True)
        if step.status is JobStatus.ERROR:
            host = urlsplit(job.target_url).hostname
            self._warn(job.tenant, "PROCESSING", source, f"{job.code} to {host}: {step.error}")

    def breaker_opened(self, target_key: TargetKey) -> None:
        tenant, target = target_key
        log.warning("dispatch.target_left_alone", tenant=tenant)
        host = urlsplit(target).hostname or ""
        self._warn(tenant, "CIRCUIT_OPEN", host, f"{host} fails too often and is left alone")

    def _warn(
        self, tenant: int, category: str, source: str, message: str, grave: bool = False
    ) -> None:
        severity = Severity.CRITICAL if grave else Severity.WARNING
        self._warnings.add(NewWarning(tenant, category, severity, source, message))

    async def _profiles(
        self, keys: Sequence[ProfileKey]
    ) -> dict[ProfileKey, DeliveryProfile | None]:
        named = {key: subscriptions.SubscriptionKey(*key[:2]) for key in keys}
        found = await subscriptions.profiles(self._pool, set(named.values()))
        return {key: found.get(name) for key, name in named.items()}

    async def _disable(self, key: SubscriptionRef, reason: str, version: int | None) -> None:
        """Pause a subscription if it is active and still has this version, and warn if so."""
        tenant, subscription_id = key
        if not await self._events.subscription_disabled(tenant, subscription_id, reason, version):
            return
        if await subscriptions.disable(self._pool, tenant, subscription_id, reason, version):
            self._warn(tenant, "CONFIGURATION", subscription_id, f"paused: {reason}", grave=True)
