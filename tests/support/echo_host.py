"""A host as `muster up` is one, with the echo application: the program that the tests run."""

import argparse
import sys
from functools import partial
from pathlib import Path

from host.errors import HostError
from host.lifecycle import announce, claim, kill, ray_up, watch
from host.paths import instance_paths
from host.ray.node import NodeOptions
from host.ray.serving import serve
from host.signals import StopRequested, stop_on_signals


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run(data_dir: Path, options: NodeOptions) -> None:
    with (
        stop_on_signals(partial(kill, instance_paths(data_dir))) as signals,
        claim(data_dir, options, say) as places,
        ray_up(places, options, signals, say) as node,
    ):
        from tests.support.echo_app import application

        serve(node, application, probe="/health")
        say(f"Serving on {announce(places, node).url}")
        watch(node)


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--data-dir", type=Path, required=True)
    arguments.add_argument("--host", default="127.0.0.1")
    arguments.add_argument("--port", type=int, required=True)
    arguments.add_argument("--dashboard", action="store_true")
    given = arguments.parse_args()
    options = NodeOptions(host=given.host, port=given.port, dashboard=given.dashboard)
    try:
        run(given.data_dir, options)
    except StopRequested as stop:
        say(f"Stopped by {stop.signal.name}")
        return 0
    except HostError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
