"""The program of Ray's worker processes: Ray's own, begun with what an instance needs."""

import runpy
import sys
from typing import Any

from host.ray.lazy_imports import defer_imports


def main() -> None:
    del sys.path[0]  # this file's folder, whose modules are imported by their full names
    defer_imports()
    stay_on_loopback()
    runpy.run_module("ray._private.workers.default_worker", run_name="__main__", alter_sys=True)


def stay_on_loopback() -> None:
    """Bind the gRPC port of each Serve replica to loopback.

    Serve binds "[::]:0" and has no setting for it. On one machine only loopback is ever used. The
    function is replaced before Serve's modules import it.
    """
    from ray._common import tls_utils  # noqa: PLC0415  after the imports are deferred

    bind = tls_utils.add_port_to_grpc_server

    def bind_on_loopback(server: Any, address: str) -> Any:
        return bind(server, address.replace("[::]:", "127.0.0.1:"))

    tls_utils.add_port_to_grpc_server = bind_on_loopback


if __name__ == "__main__":
    main()
