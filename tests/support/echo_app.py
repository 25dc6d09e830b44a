"""A tiny Serve application for the tests of the host."""

import asyncio
import os

from fastapi import FastAPI
from ray import serve

web = FastAPI()
under_way = {"slow": 0}


@serve.deployment(
    max_ongoing_requests=1000, ray_actor_options={"num_cpus": 0}, graceful_shutdown_timeout_s=2
)
@serve.ingress(web)
class Echo:
    @web.get("/health")
    async def health(self) -> dict[str, bool]:
        return {"ok": True}

    @web.get("/slow")
    async def slow(self, seconds: float) -> dict[str, float]:
        """Answer after a while: a request under way when the host is told to stop."""
        under_way["slow"] += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            under_way["slow"] -= 1
        return {"slept": seconds}

    @web.get("/under-way")
    async def under_way(self) -> dict[str, int]:
        return under_way

    @web.get("/where")
    async def where(self) -> dict[str, str]:
        """Tell which code this replica runs, and where."""
        import core

        return {"core": str(core.__file__), "cwd": os.getcwd()}


application = Echo.bind()  # type: ignore[attr-defined]
