"""Serve on the Ray node: starts an application, waits until it answers, and stops it."""

import http.client
import logging
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import psutil

from host.errors import HostError
from host.ports import LOOPBACK
from host.proxy.haproxy import routes_to_replicas, running_proxies
from host.ray.node import RayNode
from host.start_deadline import StartDeadline, progress_marks
from settings.parsing import dial_host, url_of

APPLICATION = "muster"
CONTROLLER = ("SERVE_CONTROLLER_ACTOR", "serve")
PAUSE = 0.05
ASK_EVERY = 1.0
QUIET_LOGGING = {"enable_access_log": False, "log_level": "WARNING"}


def serve(node: RayNode, application: Any, *, probe: str) -> None:
    """Run a bound Serve application at `/` and return when a GET of `probe` succeeds."""
    from ray import serve as ray_serve  # noqa: PLC0415  after the flags

    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    deadline = StartDeadline(partial(progress_marks, node.places))
    proxies = _start_proxies(node)
    _until(lambda: proxies.done() or _controller() is not None, deadline, "Serve's controller")
    target = ray_serve.RunTarget(
        target=application, name=APPLICATION, route_prefix="/", logging_config=QUIET_LOGGING
    )
    # The application is deployed by then; Serve gives its proxies a minute to say that they serve,
    # which is for the probe to find out.
    with suppress(TimeoutError):
        ray_serve.run_many([target], wait_for_applications_running=False)
    _finish(proxies, deadline)
    host, port = node.options.host, node.options.port
    failing = Seldom(_raise_if_failed)
    _until(
        lambda: _answers(dial_host(host), port, probe) or failing(),
        deadline,
        url_of(host, port) + probe,
    )
    if node.behind_haproxy:
        _until(lambda: routes_to_replicas(node.places), deadline, "HAProxy with the replicas")


def stop_serving(node: RayNode, *, drain: float = 2.0, within: float = 6.0) -> None:
    """Finish the requests under way, then let the replicas close what they hold."""
    import ray  # noqa: PLC0415

    if not ray.is_initialized():
        return
    _drain_haproxy(node, drain)
    controller = _controller()
    if controller is None:
        return
    # Not `serve.shutdown`: it waits inside the controller, whose end Ray then reports as an error.
    deadline = time.monotonic() + within
    with suppress(ray.exceptions.RayError):
        ray.get(controller.graceful_shutdown.remote(wait=False), timeout=within)
        while _controller() is not None and time.monotonic() < deadline:
            time.sleep(PAUSE)


def _start_proxies(node: RayNode) -> "Future[Any]":
    # Starting the proxies and starting the replicas each take seconds and need not wait for
    # one another, but `serve.start` returns only when the proxies are ready: so it waits aside.
    from ray import serve as ray_serve  # noqa: PLC0415  after the flags

    # Behind HAProxy, Serve and its replicas stay on loopback; only HAProxy's own port may be open.
    host = LOOPBACK if node.behind_haproxy else node.options.host
    aside = ThreadPoolExecutor(1)
    proxies = aside.submit(
        ray_serve.start,
        http_options={"host": host, "port": node.options.port},
        logging_config=QUIET_LOGGING,
    )
    aside.shutdown(wait=False)
    return proxies


def _controller() -> Any | None:
    import ray  # noqa: PLC0415

    try:
        return ray.get_actor(CONTROLLER[0], namespace=CONTROLLER[1])
    except ValueError:
        return None


def _finish(proxies: "Future[Any]", deadline: StartDeadline) -> None:
    import ray  # noqa: PLC0415

    # A proxy that died on its first try is started again by the controller, and one for which
    # Serve has waited a minute may come yet. Whether one answers in the end is what the probe
    # asks, so only a fault that it cannot see is raised here.
    _until(proxies.done, deadline, "Serve's proxy")
    with suppress(ray.exceptions.RayActorError, TimeoutError):
        proxies.result()


class Seldom:
    """Ask at most once a second: each question takes time from the controller that starts all."""

    def __init__(self, ask: Callable[[], bool]) -> None:
        self._ask = ask
        self._next = time.monotonic() + ASK_EVERY

    def __call__(self) -> bool:
        """Return the answer if it is time to ask again, else False."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + ASK_EVERY
        return self._ask()


def _raise_if_failed() -> bool:
    from ray import serve as ray_serve  # noqa: PLC0415

    state = ray_serve.status().applications.get(APPLICATION)
    if state is not None and state.status in {"DEPLOY_FAILED", "UNHEALTHY"}:
        raise HostError(f"Serve could not start the application: {state.message.strip()}")
    return False


def _answers(host: str, port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", path)
        return 200 <= connection.getresponse().status < 300
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _until(met: Callable[[], bool], deadline: StartDeadline, what: str) -> None:
    while not met():
        if deadline.has_passed():
            raise HostError(f"{what} did not answer within {deadline.waited:.0f} s.")
        time.sleep(PAUSE)


def _drain_haproxy(node: RayNode, drain: float) -> None:
    # SIGUSR1 closes HAProxy's port and lets it end by itself once the last request is answered.
    # Serve's own shutdown kills it with requests under way.
    proxies = running_proxies(node.places)
    for process in proxies:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGUSR1)
    psutil.wait_procs(proxies, timeout=drain)
