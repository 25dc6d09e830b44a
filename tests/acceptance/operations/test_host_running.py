"""A host that runs, from outside: where it listens, what it keeps to itself, who may join."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest

from host.detach import spawn_detached
from host.errors import HostError
from host.instance import read_instance
from host.lifecycle import down
from host.paths import instance_paths
from host.ports import free_block, free_port, require_free
from tests.support.hosts import (
    PROGRAM,
    ROOT,
    Host,
    assert_gone,
    launched,
    requests_under_way,
    started,
    until,
)

ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One host for the tests that only look, started where a folder `core` is in the way."""
    folder = tmp_path_factory.mktemp("looked-at")
    (folder / "core").mkdir()
    (folder / "core" / "__init__.py").write_text("raise ImportError('the wrong core')")
    with started(folder / "data", cwd=folder) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def strangers(host: Host) -> Iterator[list["subprocess.Popen[str]"]]:
    """Some that try to join without the token: Ray tries for a while, so they begin first."""
    instance = read_instance(instance_paths(host.data_dir))
    assert instance is not None
    code = f"import ray; ray.init({instance.ray_address!r}, log_to_driver=False); print('joined')"
    with ExitStack() as stack:
        yield [
            stack.enter_context(python(code, **ON_LOOPBACK, **credentials))
            for credentials in (
                {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "f" * 64},
                {"RAY_AUTH_MODE": "disabled"},
            )
        ]


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
    with python(code) as driver:
        said, errors = driver.communicate(timeout=120)
    assert driver.returncode == 0, errors
    assert said.splitlines()[-1] == "a worker answers"
    assert int(said.splitlines()[0]) >= 3


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


def test_without_the_token_nobody_joins(strangers: list["subprocess.Popen[str]"]) -> None:
    for stranger in strangers:
        said, _ = stranger.communicate(timeout=120)
        assert stranger.returncode != 0
        assert "joined" not in said


def test_after_a_kill_the_next_start_cleans_up_and_ctrl_c_finishes_requests(host: Host) -> None:
    """Kept last: the host of the others is killed."""
    killed, data_dir, family = host.process, host.data_dir, host.family()
    killed.kill()
    killed.wait()
    with started(data_dir) as second:
        assert_gone(family)
        family = second.family()
        replies: list[Any] = []
        request = threading.Thread(target=lambda: replies.append(second.get("/slow?seconds=1.5")))
        request.start()
        until(lambda: requests_under_way(second), "the request is under way")
        os.killpg(second.process.pid, signal.SIGINT)  # as a terminal does it
        request.join()
        assert replies == [{"slept": 1.5}]
        assert second.process.wait(timeout=60) == 0
        assert second.said.endswith("Stopped by SIGINT\n")
        assert_gone(family)
        assert not instance_paths(data_dir).run_dir.exists()
        assert not instance_paths(data_dir).instance.exists()
        assert (instance_paths(data_dir).kept_logs / "raylet.out").exists()
        assert down(data_dir) == f"Nothing runs on {data_dir}."


def python(code: str, **env: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | env,
    )
