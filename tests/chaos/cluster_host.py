"""A process that owns a cluster: it starts one, then does what it is told, line by line.

Apart from pytest's own process, because Ray reads its flags at import and keeps them. By hand:

    echo '{"drill": "kill_node"}' | python -m tests.chaos.cluster_host FOLDER
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from host.paths import (
    InstancePaths,
    discard_run_dir,
    instance_paths,
    prepare_data_dir,
    prepare_run_dir,
)
from host.postgres import embedded
from storage.postgres.migrate import migrate
from tests.chaos.cluster_nodes import Nodes, running_nodes

NODES = 3


def main() -> None:
    answers = _take_stdout()
    places = instance_paths(Path(sys.argv[1]))
    prepare_data_dir(places)
    prepare_run_dir(places)
    # Over TCP, because a connection's port tells whose it is.
    server = embedded.start(places.data_dir, listen=True)
    assert server.tcp_dsn is not None
    try:
        asyncio.run(migrate(server.tcp_dsn))
        with running_nodes(places, NODES) as nodes:
            asyncio.run(_obey(nodes, places, server, answers))
    finally:
        embedded.stop(server, mode="immediate")
        discard_run_dir(places)


async def _obey(
    nodes: Nodes, places: InstancePaths, server: embedded.EmbeddedServer, answers: TextIO
) -> None:
    # Only now: they import Ray, which reads its flags.
    from tests.chaos.cluster_drills import crowded_machine, kill_node
    from tests.chaos.cluster_freeze import freeze_node
    from tests.chaos.cluster_stage import actors_on

    drills = {drill.__name__: drill for drill in (kill_node, freeze_node, crowded_machine)}

    async with actors_on(nodes, places, server.tcp_dsn or "", server.port) as stage:
        _tell(answers, {"ready": True})
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = json.loads(line)
            _tell(answers, await drills[order.pop("drill")](stage, **order))


def _take_stdout() -> TextIO:
    """Keep standard output for answers: Ray prints there, too, and is sent to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def _tell(answers: TextIO, told: dict[str, Any]) -> None:
    answers.write(json.dumps(told) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
