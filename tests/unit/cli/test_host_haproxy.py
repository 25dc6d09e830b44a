import importlib.util
import json
import re
import resource
import subprocess
from pathlib import Path

import pytest

from cli.host.front_bounds import AT_ONCE, MOST_CONNECTIONS, connections, write_bounds
from cli.host.haproxy import LEADS, find_program, write_launcher
from cli.host.places import Places

CONFIG = """global
    log 127.0.0.1:514 local0 info
defaults
    mode http
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
        f"    errorfile {status} {tmp_path}/h/unavailable.http\n" for status in (502, 503, 504)
    )
    expected = CONFIG
    for old, new in (
        ("global\n", f"global\n{BUFFERS}"),
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
        expected = expected.replace(old, new)
    assert config == expected
    assert shown == f"-db -f {tmp_path}/haproxy.cfg -dR -sf 12\n"


def test_haproxy_answers_for_a_missing_replica_with_a_problem_document(tmp_path: Path) -> None:
    _launch(tmp_path, host="127.0.0.1")
    head, _, body = (tmp_path / "h" / "unavailable.http").read_bytes().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"Content-Type: application/problem+json\r\n" in head
    assert b"Content-Length: %d\r\n" % len(body) in head
    assert b"Retry-After: 1\r\n" in head
    assert json.loads(body)["status"] == 503


BUFFERS = "    tune.sndbuf.client 131072\n    tune.rcvbuf.server 131072\n"
BARE = (
    "    http-response return status 503 default-errorfiles if { status 500 } "
    "!{ res.hdr(content-type) -m sub problem+json }\n"
)
FRONT = """global
frontend http_frontend
    use_backend http-muster if is_http-muster
    default_backend default_backend
backend default_backend
    http-request return status 503 default-errorfiles
backend http-muster
    http-reuse always
    server one 127.0.0.1:20001 check observe layer4 on-error mark-down
    server two 127.0.0.1:20002 check backup
listen stats
    stats enable
"""


def bounded_config(folder: Path, config: str) -> str:
    """The configuration as the launcher hands it to HAProxy, as far as awk goes."""
    file = folder / "haproxy.cfg"
    file.write_text(config)
    awk = ["awk", "-f", str(write_bounds(folder)), str(file)]
    return subprocess.run(awk, check=True, capture_output=True, text=True, timeout=10).stdout


def test_requests_queue_before_a_busy_replica_and_long_answers_do_not(tmp_path: Path) -> None:
    mended = bounded_config(tmp_path, FRONT)
    assert f"mark-down maxconn {AT_ONCE}\n" in mended
    assert f"check backup maxconn {AT_ONCE}\n" in mended
    assert f"global\n{BUFFERS}" in mended
    assert f"backend http-muster\n    timeout queue 500ms\n{BARE}" in mended
    assert mended.index("use_backend lingering if") < mended.index("use_backend http-muster if")
    assert mended.endswith(
        f"backend lingering\n    http-reuse always\n{BARE}"
        "    server one 127.0.0.1:20001 track http-muster/one\n"
        "    server two 127.0.0.1:20002 track http-muster/two backup\n"
    )


def test_serve_does_not_listen_for_senders_of_events_who_hang_up(tmp_path: Path) -> None:
    mended = bounded_config(tmp_path, FRONT)
    bounded, lingering = mended.split("\nbackend http-muster")[1].split("\nbackend lingering")
    told = re.findall(r"http-request set-header (\S+) (\S+) if { method POST } { path_beg", bounded)
    assert told == [("x-request-disconnect-disabled", "?1"), ("x-request-id", "%[uuid()]")]
    assert "set-header" not in lingering


@pytest.mark.parametrize(
    ("most_files", "clients"),
    [(1_048_576, MOST_CONNECTIONS), (resource.RLIM_INFINITY, MOST_CONNECTIONS), (4_096, 1_438)],
)
def test_haproxy_holds_as_many_clients_as_the_files_it_may_open(
    most_files: int, clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, most_files))
    assert connections() == clients


def test_a_configuration_without_replicas_bounds_buffers_only(tmp_path: Path) -> None:
    assert bounded_config(tmp_path, CONFIG).replace(BUFFERS, "") == CONFIG


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
    assert (tmp_path / "h" / LEADS).exists() is leads


def _launch(tmp_path: Path, *, host: str, config: str = CONFIG) -> tuple[str, str]:
    program = tmp_path / "a folder" / "it's echo"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o700)
    places = Places(tmp_path / "data", tmp_path)
    places.haproxy.mkdir()
    launcher = write_launcher(places, program, host=host, port=8000)
    assert launcher is not None
    file = tmp_path / "haproxy.cfg"
    file.write_text(config)
    arguments = [str(launcher), "-db", "-f", str(file), "-dR", "-sf", "12"]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=10)
    return file.read_text(), done.stdout
