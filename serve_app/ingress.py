"""The Serve deployment: one replica is one event loop with one client and one FastAPI app."""

import sys
from functools import partial
from typing import Any

from ray import serve
from starlette.types import ASGIApp

from actors.client import ActorClient
from core.shared.config import Config
from settings.ingress import IngressOptions
from storage.encryption import cipher
from telemetry.logging import configure_logging


class Ingress:
    """Serve calls `__serve_build_asgi_app__` in the replica's event loop, then starts the app."""

    def __init__(self, config: Config, options: IngressOptions) -> None:
        # Serve redirects stderr to its log at level INFO, which is not stored.
        sys.stderr = sys.__stderr__
        configure_logging(config.log_level, as_json=config.log_json)
        cipher.configure(config)
        self._config = config
        self._options = options

    async def __serve_build_asgi_app__(self) -> ASGIApp:
        # Only a replica needs this import, which is half of all imported code.
        from serve_app.api import create_app, with_fast_path  # noqa: PLC0415

        name = serve.get_replica_context().replica_id.unique_id
        app = create_app(
            partial(ActorClient.open, self._config), self._config, self._options, replica_name=name
        )
        return with_fast_path(app)

    async def check_health(self) -> None:
        """Do nothing: a restart does not help a replica that answers while Postgres is down."""


DEPLOYMENT: Any = serve.deployment(name="ingress")(serve.ingress()(Ingress))
