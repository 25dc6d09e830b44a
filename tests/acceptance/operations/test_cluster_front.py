"""A cluster as deploy/ has it, of one machine: what it opens, what it writes, whom it serves."""

import base64
import os
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from host.ports import LOOPBACK, free_block, free_port
from host.postgres import embedded
from host.processes import find_processes_in, process_name, terminate_all
from host.proxy.haproxy_limits import MAX_REQUESTS_PER_REPLICA
from tests.support.process_logs import watched
from tests.support.product import BOTH, until
from tests.support.slow_senders import SlowSenders, unfinished_post

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
# What Ray's statistics page and exporter of HAProxy would listen on.
STATISTICS, EXPORTER = 8404, 9101


@dataclass
class Machine:
    """One machine of a cluster, with a home folder of its own."""

    home: Path
    port: int
    key: str
    replica_ports: range

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def http(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False)

    def processes(self) -> list[psutil.Process]:
        return find_processes_in(self.home)

    def files(self) -> list[Path]:
        return [file for file in self.home.rglob("*") if file.is_file() and not file.is_symlink()]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    # Short: the paths of sockets are.
    home = Path(tempfile.mkdtemp(prefix="mc-", dir="/tmp"))
    try:
        server = embedded.start(tmp_path_factory.mktemp("pg"), listen=True)
        try:
            with watched(home), _deployed(home, str(server.tcp_dsn)) as machine:
                yield machine
        finally:
            embedded.stop(server, mode="immediate")
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _deployed(home: Path, dsn: str) -> Iterator[Machine]:
    """Do what cluster.yaml does on its head, with ports that are free here."""
    front, gcs, dashboard = free_port(), free_port(), free_port()
    block = free_block(os.getpid())
    shutil.copy(ROOT / "deploy" / "cluster.env", home / "muster.env")
    with (home / "muster.env").open("a") as env:
        env.write(
            f"\nMUSTER_DATABASE_URL={dsn}\nMUSTER_PUBLIC_URL=http://{LOOPBACK}:{front}\n"
            f"MUSTER_SHARDS=1\nMUSTER_INGRESS_REPLICAS=1\nRAY_TMPDIR={home}\n"
            f"MUSTER_SECRET_KEY={base64.b64encode(secrets.token_bytes(32)).decode()}\n"
            "RAY_SERVE_HAPROXY_MAXCONN=1000\n"  # as many files as there are wherever this runs
            f"RAY_SERVE_FALLBACK_PROXY_HTTP_PORT={free_port()}\n"
            f"RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT={block.start}\n"
            f"RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT={block.stop}\n"
        )
    (home / ".ray").mkdir(mode=0o700)
    (home / ".ray" / "auth_token").write_text(secrets.token_hex(32))
    (home / ".ray" / "auth_token").chmod(0o600)
    serve = (ROOT / "deploy" / "serve.yaml").read_text().replace("port: 8000", f"port: {front}")
    (home / "serve.yaml").write_text(serve)
    try:
        _run(home, "muster haproxy ~/muster-front")
        _run(
            home,
            f"ray start --head --port={gcs} --node-ip-address={LOOPBACK}"
            f" --dashboard-host={LOOPBACK} --dashboard-port={dashboard} --num-cpus=4"
            f" --temp-dir={home}/ray --object-store-memory=100000000"
            " --dashboard-agent-listen-port=0 --min-worker-port=0 --max-worker-port=0"
            f" --ray-client-server-port={free_port()}",
        )
        _run(home, "muster migrate")
        key = _run(home, "muster keys first default").split()[-1]
        _run(home, f"serve deploy ~/serve.yaml -a http://{LOOPBACK}:{dashboard}")
        machine = Machine(home, front, key, block)
        try:
            until("the cluster serves", lambda: _serves(machine), within=300)
        except AssertionError as error:
            said = _run(home, f"serve status -a http://{LOOPBACK}:{dashboard}")
            raise AssertionError(f"{error}\n{said}") from None
        yield machine
    finally:
        left = terminate_all(lambda: find_processes_in(home), grace=0.0)
        assert not left, left


def _run(home: Path, command: str) -> str:
    """A command of the venv in a shell of that machine, with its settings."""
    shell = ["sh", "-c", f"set -a && . ~/muster.env && set +a && cd ~ && {command}"]
    path = f"{BIN}:{os.environ['PATH']}"
    done = subprocess.run(
        shell,
        env={"HOME": str(home), "PATH": path, "LANG": "C.UTF-8"},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    return done.stdout


def _serves(machine: Machine) -> bool:
    with suppress(httpx.TransportError), machine.http as http:
        return http.get("/actuator/health/readiness").status_code == 200
    return False


def _listening(process: psutil.Process) -> set[tuple[str, int]]:
    with suppress(psutil.Error):
        return {
            (held.laddr.ip, held.laddr.port)
            for held in process.net_connections("tcp")
            if held.status == psutil.CONN_LISTEN
        }
    return set()


def test_haproxy_listens_where_callers_come_in_and_nowhere_else(machine: Machine) -> None:
    fronts = [process for process in machine.processes() if process_name(process) == "haproxy"]
    assert fronts
    assert set().union(*map(_listening, fronts)) == {("0.0.0.0", machine.port)}
    every = set().union(*map(_listening, machine.processes()))
    assert not {port for _, port in every} & {STATISTICS, EXPORTER}


def test_what_is_open_to_the_network_is_what_is_documented(machine: Machine) -> None:
    """On a node whose address is loopback, all else is bound to that, or of Ray's own programs."""
    for process in machine.processes():
        own = process_name(process) in {"gcs_server", "raylet", "haproxy"}
        for host, port in _listening(process):
            if host.endswith(LOOPBACK) or host == "::1" or own or port in machine.replica_ports:
                continue
            title = " ".join(process.cmdline())[:80]
            # Workers speak Ray's protocol, which wants its token; Serve's own proxy stands in for
            # replicas that are away, and wants a key as they do.
            rays = any(sign in title for sign in ("ray::", "ray/", "-m ray.", "ray-dashboard-"))
            assert rays, f"{title} listens on {host}:{port}"
            assert not _tells(port), f"{title} tells anybody on {host}:{port}"


def _tells(port: int) -> bool:
    with suppress(httpx.HTTPError):
        where = f"http://{LOOPBACK}:{port}/metrics"
        return httpx.get(where, timeout=2, trust_env=False).is_success
    return False


def test_its_sockets_and_files_are_its_own(machine: Machine) -> None:
    folder = machine.home / "muster-front"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    sockets = [file for file in folder.rglob("*.sock") if file.is_socket()]
    assert {file.name for file in sockets} >= {"admin.sock", "stats.sock", "prometheus.sock"}
    for file in sockets:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_unfinished_bodies_shut_nobody_out(machine: Machine) -> None:
    beginning = unfinished_post("/api/events", length=1_000_000, sent=b"{")
    with SlowSenders(machine.url, beginning) as crowd, machine.http as http:
        crowd.add(MAX_REQUESTS_PER_REPLICA + 32)
        for _ in range(20):
            assert http.get("/api/wait-states?limit=1").status_code == 200


def test_nobody_may_try_deliveries_here(machine: Machine) -> None:
    with machine.http as http:
        assert http.post("/api/sample/webhook", json={}).status_code == 404


def test_no_file_holds_a_callback_token(machine: Machine) -> None:
    with machine.http as http:
        reply = http.post("/api/wait-states", json={"data": BOTH})
        assert reply.status_code == 201, reply.text
        url = reply.json()["callbackUrl"]
        token = urlsplit(url).query.removeprefix("token=")
        assert len(token) > 40
        bare = {"Authorization": ""}
        assert http.post(url, json={}, headers=bare).json()["verdict"] == "matched"
        assert http.post(f"{url}x", json={}, headers=bare).status_code == 401
    files = machine.files()
    assert any(file.suffix == ".log" for file in files)
    for file in files:
        assert token.encode() not in file.read_bytes(), file
