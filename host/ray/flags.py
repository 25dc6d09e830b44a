"""Ray's environment variables, each with the reason why it is set. Ray reads them at import."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from host.errors import HostError
from host.paths import InstancePaths
from host.proxy.haproxy_limits import max_connections
from host.ray.lazy_imports import defer_imports


class Flag(NamedTuple):
    name: str
    value: str
    why: str


# These hold whatever the environment says: they are what keeps an instance closed and apart.
FIXED = (
    Flag("RAY_AUTH_MODE", "token", "without the token nobody may run code in this cluster"),
    Flag(
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER",
        "0",
        "the switch for 'this node is 127.0.0.1': else Ray turns loopback into the outer address",
    ),
    Flag("RAY_ENABLE_AUTO_CONNECT", "0", "no stray call may start a second cluster by itself"),
    Flag("RAY_USAGE_STATS_ENABLED", "0", "nothing is reported to anybody"),
    Flag("RAY_LOG_TO_DRIVER", "0", "workers write to Ray's log folder, not to the terminal"),
    Flag("RAY_COLOR_PREFIX", "0", "no escape codes in muster.log"),
    Flag("RAY_SERVE_HAPROXY_NBTHREAD", "1", "one thread carries more than one replica can answer"),
)

# These are tuning: a value already in the environment wins.
TUNING = (
    Flag("RAY_worker_niceness", "0", "the default 15 lets any other process starve our actors"),
    Flag("RAY_health_check_initial_delay_ms", "2000", "a dead node is noticed in seconds, yet"),
    Flag("RAY_health_check_period_ms", "2000", "a busy machine is not called dead: 2 s between,"),
    Flag("RAY_health_check_timeout_ms", "3000", "3 s to answer,"),
    Flag("RAY_health_check_failure_threshold", "4", "four misses"),
    Flag("RAY_task_events_report_interval_ms", "0", "no event to the GCS for every actor call"),
    Flag("RAY_enable_metrics_collection", "0", "half of an idle node's work; we have /metrics"),
    Flag("RAY_SERVE_THROUGHPUT_OPTIMIZED", "1", "requests run on the replica's own event loop"),
    Flag("RAY_SERVE_USE_GRPC_BY_DEFAULT", "1", "also from Serve's own proxy, which reads it early"),
    Flag("RAY_SERVE_CONTROL_LOOP_INTERVAL_S", "0.3", "the controller idles at 2 % instead of 4"),
    Flag("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "60", "5 s kills proxies that start slowly"),
    Flag("RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S", "30", "nor is a busy one to be killed, yet"),
    Flag(
        "RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S", "1", "a dead one is replaced after three seconds"
    ),
    Flag(
        "RAY_SERVE_METRICS_EXPORT_INTERVAL_MS",
        "20",
        "a replica notes the time of each request then, one by one, and answers nobody meanwhile: "
        "once a second that took up to 40 ms",
    ),
    Flag(
        "RAY_SERVE_HAPROXY_METRICS_ENABLED",
        "0",
        "else HAProxy tells a Python process about every request; /metrics counts them anyway",
    ),
    Flag(
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S",
        "0.1",
        "the default waits 30 s for proxies on other nodes; there are none",
    ),
    Flag("RAY_SERVE_PROXY_MIN_DRAINING_PERIOD_S", "0.1", "the same for the proxies"),
)

# These would lead to another cluster, or bring another secret than ours.
DROPPED = ("RAY_ADDRESS", "RAY_REDIS_ADDRESS", "RAY_AUTH_TOKEN", "RAY_NAMESPACE")


@dataclass(frozen=True, slots=True)
class ProxySetup:
    launcher: Path | None  # HAProxy's; None means Serve's own proxy
    fallback_port: int
    replica_ports: range


def client_flags(places: InstancePaths) -> dict[str, str]:
    """Return what a second driver needs to join the instance."""
    return {flag.name: flag.value for flag in FIXED} | {"RAY_AUTH_TOKEN_PATH": str(places.token)}


def host_flags(
    places: InstancePaths, front: ProxySetup, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return every variable that the host sets before it imports Ray."""
    tuning = {flag.name: environment.get(flag.name, flag.value) for flag in TUNING}
    return tuning | client_flags(places) | _front_flags(places, front) | _code_path(environment)


def apply(flags: Mapping[str, str]) -> None:
    """Set the flags for this process and all that it starts."""
    if "ray" in sys.modules:
        raise HostError("Ray was imported before its flags were set; this is a bug in Muster.")
    for name in DROPPED:
        os.environ.pop(name, None)
    os.environ.update(flags)
    defer_imports()


def _front_flags(places: InstancePaths, front: ProxySetup) -> dict[str, str]:
    ports = {
        "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(front.fallback_port),
        "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT": str(front.replica_ports.start),
        "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT": str(front.replica_ports.stop),
    }
    if front.launcher is None:
        # Replicas need no port of their own when the proxy reaches them by gRPC.
        off = {"RAY_SERVE_ENABLE_HA_PROXY": "0", "RAY_SERVE_ENABLE_DIRECT_INGRESS": "0"}
        return ports | off
    # All of these default to one folder in /tmp that every user and instance would share.
    folder = places.haproxy
    return ports | {
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        "RAY_SERVE_HAPROXY_BINARY_PATH": str(front.launcher),
        "RAY_SERVE_HAPROXY_MAXCONN": str(max_connections()),
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(folder / "haproxy.cfg"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(folder / "admin.sock"),
        "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": str(folder / "metrics.sock"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(folder),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(folder / "server-state"),
    }


def _code_path(environment: Mapping[str, str]) -> dict[str, str]:
    """Make workers import the code that this process runs, wherever it was found."""
    root = Path(__file__).resolve().parents[2]
    if "site-packages" in root.parts:
        return {}
    others = [part for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys([str(root), *others]))}
