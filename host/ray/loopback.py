"""A hook, named in flags.py, that Ray runs in every worker process before it becomes an actor."""

from typing import Any

from ray._common import tls_utils


def stay_on_loopback() -> None:
    """Bind the gRPC port of each Serve replica to loopback.

    Serve binds "[::]:0" and has no setting for it. On one machine only loopback is ever used. The
    function is replaced before Serve's modules import it.
    """
    bind = tls_utils.add_port_to_grpc_server

    def bind_on_loopback(server: Any, address: str) -> Any:
        return bind(server, address.replace("[::]:", "127.0.0.1:"))

    tls_utils.add_port_to_grpc_server = bind_on_loopback
