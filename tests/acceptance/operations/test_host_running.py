"""A host that runs, from outside: where it listens, what it keeps to itself, who may join."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from host.detach import spawn_detached
from host.errors import HostError
from host.instance import read_instance
from host.lifecycle import down
from host.paths import instance_paths
from host.ports import free_block, free_port, require_free
from tests.support.hosts import PROGRAM, ROOT, Host, assert_gone, launched, started, until

ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One host for the tests that only look, started where a folder `core` is in the way."""
    folder = tmp_path_factory.mktemp("looked-at")
    (folder / "core").mkdir()
    (folder / "core" / "__init__.py").write_text("raise ImportError('the wrong core')")
    with started(folder / "data", cwd=folder) as running:
        yield running


def test_everything_listens_on_loopback_only(host: Host) -> None:
    pids = {mark.pid for mark in host.family()}
    listening = [
        connection.laddr
        for connection in psutil.net_connections("tcp")
        if connection.laddr and connection.pid in pids and connection.status == psutil.CONN_LISTEN
    ]
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    assert host.port in {address.port for address in listening}


def test_haproxy_stands_in_front(host: Host) -> None:
    assert "haproxy" in host.names()


def test_workers_run_our_code_wherever_the_host_was_started(host: Host) -> None:
    where = host.get("/where")
    assert where["core"] == str(ROOT / "core" / "__init__.py")
    assert where["cwd"] == str(instance_paths(host.data_dir).run_dir)


def test_the_files_of_an_instance_are_for_its_owner_only(host: Host) -> None:
    places = instance_paths(host.data_dir)
    for path in (places.instance, places.token, places.lock):
        assert path.stat().st_mode & 0o077 == 0, path
    assert places.run_dir.stat().st_mode & 0o077 == 0


def test_the_instance_file_tells_the_host(host: Host) -> None:
    instance = read_instance(instance_paths(host.data_dir))
    assert instance is not None
    assert instance.pid == host.process.pid
    assert instance.url == f"http://127.0.0.1:{host.port}"
    assert {"raylet", "gcs_server"} <= {mark.name for mark in instance.processes}


def test_a_second_driver_joins_with_the_token(host: Host) -> None:
    code = f"""
import pathlib
from host.client import connect
with connect(pathlib.Path({str(host.data_dir)!r})):
    import ray
    print(len(ray.util.list_named_actors(all_namespaces=True)))
    @ray.remote(num_cpus=0)
    def here(): return "a worker answers"
    print(ray.get(here.remote()))
"""
    done = run_python(code, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "a worker answers"
    assert int(done.stdout.splitlines()[0]) >= 3


def test_without_the_token_nobody_joins(host: Host) -> None:
    instance = read_instance(instance_paths(host.data_dir))
    assert instance is not None
    code = f"import ray; ray.init({instance.ray_address!r}, log_to_driver=False); print('joined')"
    strangers = [
        {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "f" * 64},
        {"RAY_AUTH_MODE": "disabled"},
    ]
    # Ray tries for a while before it gives up: both at once.
    with ThreadPoolExecutor() as pool:
        outcomes = pool.map(
            lambda auth: run_python(code, cwd=ROOT, **ON_LOOPBACK, **auth), strangers
        )
    for outcome in outcomes:
        assert outcome.returncode != 0
        assert "joined" not in outcome.stdout


def test_a_second_host_on_the_same_folder_is_refused(host: Host) -> None:
    with launched(host.data_dir) as second:
        until(lambda: second.ended, "the second host gives up")
        assert second.process.returncode == 1
        assert f"already runs on {host.data_dir} (pid {host.process.pid}" in second.said
    assert host.get("/health") == {"ok": True}


def test_a_taken_port_is_one_sentence_before_anything_starts(tmp_path: Path, host: Host) -> None:
    with launched(tmp_path, port=host.port) as second:
        until(lambda: second.ended, "the second host gives up")
        assert second.process.returncode == 1
        assert (
            second.said == f"Port {host.port} on 127.0.0.1 is taken. Choose another with --port.\n"
        )
        assert not instance_paths(tmp_path).run_dir.exists()


def test_another_host_lives_beside_it_in_the_background_on_a_path_with_spaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Host
) -> None:
    folder = tmp_path / "a folder, it's mine"
    folder.mkdir()
    (folder / "venv").symlink_to(sys.prefix)
    port = free_port()
    command = [str(folder / "venv/bin/python"), str(PROGRAM), "--port", str(port)]
    data_dir = folder / "my data"
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    other = spawn_detached([*command, "--data-dir", str(data_dir)], data_dir)
    try:
        with urlopen(f"{other.url}/health", timeout=30) as reply:
            assert json.load(reply) == {"ok": True}
        assert host.get("/health") == {"ok": True}
        assert os.getsid(other.pid) == other.pid
        assert "Serving on" in instance_paths(data_dir).log.read_text()
    finally:
        sentence = down(data_dir)
    assert sentence == f"Stopped http://127.0.0.1:{port} (pid {other.pid})."
    assert_gone([other.host, *other.processes])
    assert host.get("/health") == {"ok": True}


def test_blocks_of_ports_do_not_overlap() -> None:
    first = free_block(7)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first.start))
        second = free_block(7)
    assert set(first).isdisjoint(second)


def test_a_port_in_use_is_refused_and_a_free_one_is_not() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(HostError, match="is taken"):
            require_free("127.0.0.1", taken.getsockname()[1])
    require_free("127.0.0.1", free_port())


def run_python(code: str, *, cwd: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        env=os.environ | env,
    )
