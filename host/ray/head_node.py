"""A Ray node without the processes that nobody here talks to. Imported after the flags are set."""

import time
from collections.abc import Callable
from typing import Any

from ray._private import node, services

from host.start_deadline import StartDeadline

PAUSE = 0.05


class HeadNode(node.Node):  # type: ignore[misc]
    """A head node; its API server comes with the dashboard only."""

    def __init__(self, settings: Any, progress: Callable[[], object]) -> None:
        self._progress = progress
        super().__init__(settings, head=True, shutdown_at_exit=False, ray_init_cluster=True)

    def start_ray_processes(self) -> None:
        super().start_ray_processes()
        # Ray itself gives its raylet half a minute, which is too little beside much else.
        deadline = StartDeadline(self._progress)
        while not self._is_known() and not deadline.has_passed():
            time.sleep(PAUSE)

    def start_api_server(self, *, include_dashboard: bool, raise_on_failure: bool) -> None:
        if include_dashboard:
            super().start_api_server(
                include_dashboard=include_dashboard, raise_on_failure=raise_on_failure
            )

    def _is_known(self) -> bool:
        try:
            services.get_node(self.gcs_address, self.node_id)
        except RuntimeError:
            return False
        return True
