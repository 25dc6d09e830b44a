"""Serve bindings: `serve deploy` builds the app from settings, `muster up` from a configuration."""

import structlog
from ray.serve import Application
from ray.serve.config import BackpressureConfig

from core.shared.config import Config
from core.shared.errors import InvalidError
from serve_app.ingress import DEPLOYMENT
from settings.settings import Settings

log = structlog.get_logger("serve")

SHUTDOWN_GRACE_SECONDS = 2.0


def build(args: dict[str, str]) -> Application:
    """Build the app for `serve deploy`; `args` are settings."""
    settings = Settings.load(args).on_cluster()
    if settings.database_url is None:
        raise InvalidError(
            "MUSTER_DATABASE_URL", "is required on a cluster: nodes cannot share a data folder"
        )
    if settings.public_url is None:
        raise InvalidError(
            "MUSTER_PUBLIC_URL",
            "is required on a cluster: nothing else says where callbacks find it",
        )
    if settings.secret_key is None:
        raise InvalidError(
            "MUSTER_SECRET_KEY",
            "is required on a cluster, where nodes cannot share a key file: "
            "`openssl rand -base64 32` makes one",
        )
    if settings.plain_text_warning is not None:
        log.warning("serve.without_tls", detail=settings.plain_text_warning)
    return make_app(settings, settings.to_config(settings.database_url.get_secret_value()))


def make_app(settings: Settings, config: Config) -> Application:
    application: Application = DEPLOYMENT.options(
        num_replicas=settings.ingress_replicas,
        # An open stream occupies a request slot.
        max_ongoing_requests=settings.max_ongoing_requests,
        max_queued_requests=settings.max_queued_requests,
        backpressure_config=BackpressureConfig(status_code=429, retry_after_s=1),
        # Every answered request is committed, so a shutdown has little to wait for.
        graceful_shutdown_timeout_s=SHUTDOWN_GRACE_SECONDS,
        graceful_shutdown_wait_loop_s=0.2,
        health_check_period_s=2.0,
        health_check_timeout_s=30.0,
        # Replicas mostly wait for the shards, so they reserve no CPU.
        ray_actor_options={"num_cpus": 0},
        logging_config={"enable_access_log": False, "log_level": "WARNING"},
    ).bind(config, settings.to_options())
    return application
