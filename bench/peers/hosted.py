"""A peer that is a Serve deployment, on a host of its own that the product's code starts.

So it has the product's flags, the same HAProxy in front and the same deployment options.
Run as `python -m bench.peers.hosted DATA_DIR PORT MODULE:CLASS`.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path

from bench.stage import Stage
from bench.wire import Door
from host.instance import HostStage as Reached
from host.instance import read_instance
from host.lifecycle import announce, claim, kill, ray_up, watch
from host.paths import InstancePaths, instance_paths
from host.ports import free_port
from host.ray.node import NodeOptions
from host.ray.serving import QUIET_LOGGING, serve
from host.signals import StopRequested, stop_on_signals
from settings.settings import Settings

START_WITHIN = 180.0


@asynccontextmanager
async def hosted(stage: Stage, service: type) -> AsyncIterator[tuple[Door, InstancePaths]]:
    """The service, for as long as the context lasts. It has to answer `GET /`."""
    name = service.__name__.lower()
    places = instance_paths(stage.places.data_dir.parent / name)
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.peers.hosted",
        str(places.data_dir),
        str(port),
        f"{service.__module__}:{service.__name__}",
        # The stage's own HAProxy is none of its business.
        env={k: v for k, v in os.environ.items() if not k.startswith("RAY_SERVE_HAPROXY_")},
    )
    try:
        async with asyncio.timeout(START_WITHIN):
            while not _is_up(places):
                assert process.returncode is None, f"{name} did not start"
                await asyncio.sleep(0.2)
        yield Door(port, "none", ""), places
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        kill(places)


def _is_up(places: InstancePaths) -> bool:
    instance = read_instance(places)
    return instance is not None and instance.stage is Reached.UP


def main() -> None:
    """Serve until told to stop."""
    data_dir, options = Path(sys.argv[1]), NodeOptions(port=int(sys.argv[2]))
    try:
        with (
            stop_on_signals(partial(kill, instance_paths(data_dir))) as signals,
            claim(data_dir, options, _ignore) as places,
            ray_up(places, options, signals, _ignore) as node,
        ):
            settings = Settings.load({"port": options.port})
            serve(node, _application(settings, sys.argv[3]), probe="/")
            announce(places, node)
            watch(node)
    except StopRequested:
        return


def _application(settings: Settings, named: str) -> object:
    from ray import serve as ray_serve  # noqa: PLC0415  after the flags

    module, _, name = named.partition(":")
    service = getattr(import_module(module), name)
    return (
        ray_serve.deployment(name=name.lower())(service)
        .options(
            num_replicas=settings.ingress_replicas,
            max_ongoing_requests=settings.max_ongoing_requests,
            max_queued_requests=settings.max_queued_requests,
            ray_actor_options={"num_cpus": 0},
            logging_config=QUIET_LOGGING,
        )
        .bind()
    )


def _ignore(_sentence: str) -> None:
    """What a host says is not for the one who reads figures."""


if __name__ == "__main__":
    main()
