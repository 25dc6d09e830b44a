"""A bare Serve deployment: parse a small JSON, answer JSON. What Serve itself costs.

It runs on a host of its own that the product's code starts, with the product's flags, HAProxy and
deployment options. A class with `__call__` is Serve's plainest form and was the fastest: FastAPI
and Starlette apps took 1.2 to 1.5 times the CPU of it.
Run as `python -m bench.peers.echo DATA_DIR PORT`.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import orjson
from starlette.requests import Request
from starlette.responses import Response

from bench.stage import Stage
from bench.wire import Door
from cli.host.instance import Stage as Reached
from cli.host.instance import read_instance
from cli.host.lifecycle import announce, claim, kill, ray_up, watch
from cli.host.places import Places, places_of
from cli.host.ports import free_port
from cli.host.ray_node import NodeOptions
from cli.host.serving import QUIET, serve
from cli.host.signals import StopRequested, stop_on_signals
from serve_app.settings import Settings

PATH = "/callbacks"
EXPECTED = b'"echo"'
START_WITHIN = 180.0


class Echo:
    """Answers what it was sent."""

    async def __call__(self, request: Request) -> Response:
        """Parse and answer."""
        document = orjson.loads(await request.body() or b"null")
        return Response(orjson.dumps({"echo": document}), media_type="application/json")


@asynccontextmanager
async def echo_service(stage: Stage) -> AsyncIterator[tuple[Door, Places]]:
    """The echo on a host of its own."""
    places = places_of(stage.places.data_dir.parent / "echo")
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.peers.echo",
        str(places.data_dir),
        str(port),
        # The stage's own HAProxy is none of its business.
        env={k: v for k, v in os.environ.items() if not k.startswith("RAY_SERVE_HAPROXY_")},
    )
    try:
        async with asyncio.timeout(START_WITHIN):
            while not _is_up(places):
                assert process.returncode is None, "the echo did not start"
                await asyncio.sleep(0.2)
        yield Door(port, "none", ""), places
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        kill(places)


def _is_up(places: Places) -> bool:
    instance = read_instance(places)
    return instance is not None and instance.stage is Reached.UP


def main() -> None:
    """Serve until told to stop."""
    data_dir, options = Path(sys.argv[1]), NodeOptions(port=int(sys.argv[2]))
    try:
        with (
            stop_on_signals(partial(kill, places_of(data_dir))) as signals,
            claim(data_dir, options, _ignore) as places,
            ray_up(places, options, signals, _ignore) as node,
        ):
            serve(node, _application(Settings.load({"port": options.port})), probe="/")
            announce(places, node)
            watch(node)
    except StopRequested:
        return


def _application(settings: Settings) -> object:
    from ray import serve as ray_serve  # noqa: PLC0415  after the flags

    return (
        ray_serve.deployment(name="echo")(Echo)
        .options(
            num_replicas=settings.ingress_replicas,
            max_ongoing_requests=settings.max_ongoing_requests,
            max_queued_requests=settings.max_queued_requests,
            ray_actor_options={"num_cpus": 0},
            logging_config=QUIET,
        )
        .bind()
    )


def _ignore(_sentence: str) -> None:
    """What a host says is not for the one who reads figures."""


if __name__ == "__main__":
    main()
