import importlib.util
import json
import re
import resource
import subprocess
from pathlib import Path

import pytest

from host.proxy.haproxy import REPLICAS_KNOWN_FILE, ProxyOptions, find_program, write_launcher
from host.proxy.haproxy_limits import (
    CALLER_SHARE,
    CALLER_SHARE_BESIDE_OTHERS,
    MAX_CONNECTIONS,
    MAX_REQUESTS_PER_REPLICA,
    ProxyLimits,
    max_connections,
    write_limits,
)

CONFIG = """global
    log 127.0.0.1:514 local0 info
    stats socket /tmp/haproxy-serve/admin.sock mode 666 level admin expose-fd listeners
defaults
    mode http
    timeout client 3600s
    option splice-request
    errorfile 503 /tmp/ray/500.http
frontend prometheus
    bind :9101
frontend http_frontend
    bind 127.0.0.1:8000
    log /tmp/metrics.sock len 8192 format rfc5424 local1 debug
backend default_backend
    http-request return status 404 content-type text/plain lf-string "Path '%[path]' not found."
listen stats
  bind *:8404
"""


def test_the_launcher_mends_the_configuration_and_becomes_haproxy(tmp_path: Path) -> None:
    config, shown = _launch(tmp_path, host="127.0.0.1")
    files = "".join(
        f"    errorfile {status} {tmp_path}/h/{name}.http\n"
        for status, name in (
            (502, "unavailable"),
            (503, "unavailable"),
            (504, "unavailable"),
            (408, "late"),
        )
    )
    expected = CONFIG
    for old, new in (
        ("global\n", f"global\n{BUFFERS}"),
        ("mode 666", "mode 600"),
        ("timeout client 3600s", "timeout client 60s"),
        ("frontend http_frontend\n", f"frontend http_frontend\n{sources()}"),
        ("log 127.0.0.1:514 local0 info", "log stderr format raw local0 emerg"),
        ("bind :9101", f"bind unix@{tmp_path}/h/prometheus.sock mode 600"),
        ("bind *:8404", f"bind unix@{tmp_path}/h/stats.sock mode 600"),
        ("    errorfile 503 /tmp/ray/500.http\n", ""),
        ("    option splice-request\n", ""),
        (
            """return status 404 content-type text/plain lf-string "Path '%[path]' not found.\"""",
            "return status 503 default-errorfiles",
        ),
        (
            "defaults\n",
            f"defaults\n    timeout http-request 15s\n    option http-ignore-probes\n{files}",
        ),
    ):
        assert old in expected
        expected = expected.replace(old, new)
    assert config == expected + SOURCES_TABLE
    assert shown == f"-db -f {tmp_path}/haproxy.cfg -dR -sf 12\n"


def test_haproxy_answers_for_a_missing_replica_with_a_problem_document(tmp_path: Path) -> None:
    _launch(tmp_path, host="127.0.0.1")
    head, _, body = (tmp_path / "h" / "unavailable.http").read_bytes().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"Content-Type: application/problem+json\r\n" in head
    assert b"Content-Length: %d\r\n" % len(body) in head
    assert b"Retry-After: 1\r\n" in head
    assert json.loads(body)["status"] == 503


def test_haproxy_answers_what_comes_too_slowly_with_a_problem_document(tmp_path: Path) -> None:
    _launch(tmp_path, host="127.0.0.1")
    head, _, body = (tmp_path / "h" / "late.http").read_bytes().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"Content-Length: %d\r\n" % len(body) in head
    assert json.loads(body)["code"] == "request_timeout"


BUFFERS = "    tune.sndbuf.client 131072\n    tune.rcvbuf.server 131072\n"
BARE = (
    "    http-response return status 503 default-errorfiles if { status 500 } "
    "!{ res.hdr(content-type) -m sub problem+json }\n"
)
FRONT = """global
defaults
    mode http
    timeout client 1s
    timeout server 1s
    timeout connect 1s
frontend http_frontend
    bind 127.0.0.1:8000
    acl is_http-muster path_beg /
    use_backend http-muster if is_http-muster
    default_backend default_backend
backend default_backend
    http-request return status 503 default-errorfiles
backend http-muster
    http-reuse always
    server one 127.0.0.1:20001 check observe layer4 on-error mark-down
    server two 127.0.0.1:20002 check backup
listen stats
    bind unix@/tmp/nobody-binds-this.sock
    stats enable
"""
SOURCES_TABLE = "backend sources\n    stick-table size 50k store conn_cur expire 1m type ipv6\n"


def sources(most: int | None = None, spared: str = " !{ src 127.0.0.0/8 ::1 }") -> str:
    return (
        "    tcp-request connection track-sc1 src,ipmask(32,64) table sources\n"
        f"    tcp-request connection reject if {{ sc1_conn_cur(sources) gt "
        f"{most or max_connections() // 2} }}{spared}\n"
    )


def bounded_config(folder: Path, config: str, bounds: ProxyLimits = ProxyLimits()) -> str:  # noqa: B008
    """The configuration as the launcher hands it to HAProxy, as far as awk goes."""
    file = folder / "haproxy.cfg"
    file.write_text(config)
    awk = ["awk", "-f", str(write_limits(folder, bounds)), str(file), str(file)]
    return subprocess.run(awk, check=True, capture_output=True, text=True, timeout=10).stdout


def test_requests_queue_before_a_busy_replica_and_long_answers_do_not(tmp_path: Path) -> None:
    mended = bounded_config(tmp_path, FRONT)
    assert f"mark-down maxconn {MAX_REQUESTS_PER_REPLICA}\n" in mended
    assert f"check backup maxconn {MAX_REQUESTS_PER_REPLICA}\n" in mended
    assert f"global\n{BUFFERS}" in mended
    assert f"backend http-muster\n    timeout queue 500ms\n{BARE}" in mended
    chosen = re.findall(r"use_backend (\S+) if", mended)
    assert chosen == ["lingering", "crowd_beside", "crowd", "http-muster"]
    assert mended.endswith(
        f"backend lingering\n    http-reuse always\n{BARE}"
        "    server one 127.0.0.1:20001 track http-muster/one\n"
        "    server two 127.0.0.1:20002 track http-muster/two backup\n"
    )


def test_serve_does_not_listen_for_senders_of_events_who_hang_up(tmp_path: Path) -> None:
    mended = bounded_config(tmp_path, FRONT)
    bounded, lingering = mended.split("\nbackend http-muster")[1].split("\nbackend lingering")
    told = re.findall(r"http-request set-header (\S+) (\S+) if { method POST } { path_beg", bounded)
    # Once where most go, once for each crowd.
    assert told == 3 * [("x-request-disconnect-disabled", "?1"), ("x-request-id", "%[uuid()]")]
    assert "set-header" not in lingering


def test_a_place_at_a_replica_is_for_a_request_that_has_come_as_a_whole(tmp_path: Path) -> None:
    mended = bounded_config(tmp_path, FRONT, ProxyLimits(body_seconds=2.5, body_bytes=4096))
    too_large = "{ req.hdr_val(content-length) gt 4096 } || { req.hdr(content-length),length gt 9 }"
    wait = mended.index(f"http-request wait-for-body time 2500ms unless {too_large}\n")
    # What the buffer does not hold takes no such place; to know that, one must have waited.
    large = mended.index("set-var(req.lingers) bool(true) if !{ internal.htx.has_eom }\n")
    assert wait < large < mended.index("use_backend lingering if { var(req.lingers) -m bool }\n")


def test_only_gets_of_one_wait_and_of_streams_may_linger(tmp_path: Path) -> None:
    """Whoever may choose the backend without a bound has no bound."""
    mended = bounded_config(tmp_path, FRONT)
    lingering = re.findall(r"set-var\(req.lingers\) bool\(true\) if { method (\S+) } (.*)", mended)
    assert lingering == [
        ("GET", "{ path_end /stream }"),
        ("GET", "{ path_beg /api/wait-states/ } { url_param(wait) -m found }"),
        ("GET", "{ path_beg /actuator/ /metrics }"),
        ("GET", "{ path /openapi.json }"),
        ("POST", "{ path /aggregate/journals /journals /api/gathers }"),
        ("POST", "{ path /api/sample/webhook/slow }"),
    ]


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_caller_has_half_of_the_places_and_then_a_queue_of_its_own(
    tmp_path: Path, replicas: int
) -> None:
    more = [f"    server more{n} 127.0.0.1:2101{n} check\n" for n in range(replicas - 1)]
    config = FRONT.replace("    server two", "".join(more) + "    server two")
    mended = bounded_config(tmp_path, config)
    share = CALLER_SHARE * replicas
    assert f"use_backend crowd if {{ sc0_conn_cur(callers) gt {share} }}\n" in mended
    crowd = mended.split("backend crowd\n")[1].split("backend crowd_beside")[0]
    assert crowd.startswith("    http-reuse always\n    timeout queue 500ms\n")
    assert (
        f"server one 127.0.0.1:20001 track http-muster/one maxconn {MAX_REQUESTS_PER_REPLICA}\n"
        in crowd
    )
    assert (
        f"server two 127.0.0.1:20002 track http-muster/two backup "
        f"maxconn {MAX_REQUESTS_PER_REPLICA}\n" in crowd
    )
    keys = re.findall(r"track-sc0 (\S+),xxh32 table callers", mended)
    assert keys == ["req.hdr(authorization)", "req.hdr(x-callback-token)", "url_param(token)"]


def test_beside_others_a_caller_has_fewer_places_and_so_has_its_crowd(tmp_path: Path) -> None:
    """What stands in a replica's event loop is what everybody else waits for."""
    mended = bounded_config(tmp_path, FRONT)
    few = CALLER_SHARE_BESIDE_OTHERS
    assert (
        f"    use_backend crowd_beside if {{ sc0_conn_cur(callers) gt {few} }}"
        " { table_cnt(callers) gt 1 }\n    use_backend crowd if"
    ) in mended
    crowd = mended.split("backend crowd_beside\n")[1].split("backend lingering")[0]
    assert crowd.startswith("    http-reuse always\n    timeout queue 500ms\n")
    assert f"server one 127.0.0.1:20001 track http-muster/one maxconn {few}\n" in crowd
    # Whoever has not asked for a while does not count among the others.
    assert "backend callers\n    stick-table size 50k store conn_cur expire 10s" in mended


@pytest.mark.parametrize(
    ("given", "rules"), [(None, sources()), (7, sources(7, "")), (1, sources(1, ""))]
)
def test_one_address_has_half_of_the_connections_or_what_was_set(
    tmp_path: Path, given: int | None, rules: str
) -> None:
    mended = bounded_config(tmp_path, FRONT, ProxyLimits(source_connections=given))
    assert f"frontend http_frontend\n{rules}" in mended


# While replicas start, Serve may route to an application that has no server at all yet.
NO_SERVERS = re.sub("    server .*\n", "", FRONT)


@pytest.mark.parametrize("config", [FRONT, NO_SERVERS])
def test_haproxy_takes_what_is_written(config: str, tmp_path: Path) -> None:
    program = find_program()
    assert program is not None
    file = tmp_path / "mended.cfg"
    file.write_text(bounded_config(tmp_path, config))
    check = [str(program), "-c", "-f", str(file)]
    done = subprocess.run(check, check=False, capture_output=True, text=True, timeout=10)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("most_files", "clients"),
    [(1_048_576, MAX_CONNECTIONS), (resource.RLIM_INFINITY, MAX_CONNECTIONS), (4_096, 1_438)],
)
def test_haproxy_holds_as_many_clients_as_the_files_it_may_open(
    most_files: int, clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, most_files))
    assert max_connections() == clients


def test_a_configuration_without_replicas_bounds_buffers_and_connections(tmp_path: Path) -> None:
    mended = bounded_config(tmp_path, CONFIG).removesuffix(SOURCES_TABLE)
    assert mended.replace(BUFFERS, "").replace(sources(), "") == CONFIG


def test_only_the_front_door_may_be_opened_to_the_network(tmp_path: Path) -> None:
    config, _shown = _launch(tmp_path, host="0.0.0.0")
    assert re.findall(r"bind [^u].*", config) == ["bind 0.0.0.0:8000"]


def test_rays_template_still_has_the_lines_that_are_mended() -> None:
    """An upgrade that changes them would leave ports open; then the launcher must follow."""
    ray = importlib.util.find_spec("ray")
    assert ray is not None
    assert ray.origin is not None
    template = (Path(ray.origin).parent / "serve" / "_private" / "haproxy_templates.py").read_text()
    assert [line for line in template.splitlines() if line.strip().startswith("bind ")] == [
        "    bind :{{ config.metrics_port }}",
        "    bind {{ config.frontend_host }}:{{ config.frontend_port }}",
        "    bind {{ config.grpc_frontend_host }}:{{ config.grpc_frontend_port }} proto h2",
        "  bind *:{{ config.stats_port }}",
    ]
    assert "\n    log {{ config.log_target }} local0 info\n" in template
    assert "\n    stats socket {{ config.socket_path }} mode 666 level admin" in template
    assert "%}timeout client {{ config.timeout_client_s }}s{%" in template
    assert template.count("\nfrontend http_frontend\n") == 1
    assert template.count("\ndefaults\n") == 1
    assert template.count("\n    errorfile ") == 3
    assert template.count("\n    option splice-request\n") == 1
    assert template.count("\n    http-request return status 404 ") == 1
    assert "\n    use_backend {{ backend.name or 'unknown' }} if " in template
    assert "\n    server {{ server.name }} {{ server.host }}:{{ server.port }} check" in template


def test_a_program_that_is_not_there_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_SERVE_HAPROXY_BINARY_PATH", "/nowhere/haproxy")
    assert find_program() is None


def test_the_bundled_program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_SERVE_HAPROXY_BINARY_PATH", raising=False)
    program = find_program()
    assert program is not None
    assert program.name == "haproxy"


@pytest.mark.parametrize(
    ("server", "leads"), [("SERVE_PROXY_ACTOR-fallback", False), ("SERVE_REPLICA_muster", True)]
)
def test_the_launcher_tells_when_haproxy_knows_a_replica(
    tmp_path: Path, server: str, *, leads: bool
) -> None:
    _launch(tmp_path, host="127.0.0.1", config=f"{CONFIG}    server {server} 127.0.0.1:9 check\n")
    assert (tmp_path / "h" / REPLICAS_KNOWN_FILE).exists() is leads


def _launch(tmp_path: Path, *, host: str, config: str = CONFIG) -> tuple[str, str]:
    program = tmp_path / "a folder" / "it's echo"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o700)
    folder = tmp_path / "h"
    folder.mkdir()
    launcher = write_launcher(folder, program, ProxyOptions(host=host, port=8000))
    assert launcher is not None
    file = tmp_path / "haproxy.cfg"
    file.write_text(config)
    arguments = [str(launcher), "-db", "-f", str(file), "-dR", "-sf", "12"]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=10)
    return file.read_text(), done.stdout
