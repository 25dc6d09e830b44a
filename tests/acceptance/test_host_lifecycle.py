"""The host from outside: real Ray, real Serve, real signals, and nothing left behind."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest

from cli.host.detach import spawn_detached
from cli.host.errors import HostError
from cli.host.instance import read_instance
from cli.host.lifecycle import down
from cli.host.places import places_of
from cli.host.ports import free_block, free_port, require_free
from cli.host.processes import Mark, find, find_in, mark_of

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "support" / "echo_host.py"
NOBODY = 65534
ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


@dataclass
class Host:
    """A host that a test has started, by the program that stands in for `muster up`."""

    process: "subprocess.Popen[str]"
    data_dir: Path
    port: int
    output: Path

    def get(self, path: str, timeout: float = 30) -> Any:
        with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=timeout) as reply:
            return json.load(reply)

    def wait_until_up(self) -> None:
        until(lambda: self.ended or "Serving on" in self.said, "the host serves", within=120)
        assert not self.ended, self.said

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def said(self) -> str:
        return self.output.read_text()

    def family(self) -> list[Mark]:
        """Every process of this host, itself included."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        working = find_in(places_of(self.data_dir).run_dir)
        pids = {self.process.pid, *(process.pid for process in (*children, *working))}
        return [mark for mark in map(mark_of, pids) if mark is not None]

    def names(self) -> set[str]:
        return {mark.name for mark in self.family()}


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
    assert where["cwd"] == str(places_of(host.data_dir).run_dir)


def test_the_files_of_an_instance_are_for_its_owner_only(host: Host) -> None:
    places = places_of(host.data_dir)
    for path in (places.instance, places.token, places.lock):
        assert path.stat().st_mode & 0o077 == 0, path
    assert places.run_dir.stat().st_mode & 0o077 == 0


def test_the_instance_file_tells_the_host(host: Host) -> None:
    instance = read_instance(places_of(host.data_dir))
    assert instance is not None
    assert instance.pid == host.process.pid
    assert instance.url == f"http://127.0.0.1:{host.port}"
    assert {"raylet", "gcs_server"} <= {mark.name for mark in instance.processes}


def test_a_second_driver_joins_with_the_token(host: Host) -> None:
    code = f"""
import pathlib
from cli.host.client import connect
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
    instance = read_instance(places_of(host.data_dir))
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
        assert not places_of(tmp_path).run_dir.exists()


def test_two_hosts_live_side_by_side(tmp_path: Path, host: Host) -> None:
    with started(tmp_path / "other") as other:
        assert host.get("/health") == other.get("/health") == {"ok": True}
        family = other.family()
        stop(other, signal.SIGTERM)
        assert_gone(family)
        assert host.get("/health") == {"ok": True}


def test_ctrl_c_finishes_the_requests_under_way_and_leaves_nothing(tmp_path: Path) -> None:
    with started(tmp_path) as host:
        family = host.family()
        replies: list[Any] = []
        request = threading.Thread(target=lambda: replies.append(host.get("/slow?seconds=1.5")))
        request.start()
        until(lambda: _requests_under_way(host), "the request is under way")
        os.killpg(host.process.pid, signal.SIGINT)  # as a terminal does it
        request.join()
        assert replies == [{"slept": 1.5}]
        assert host.process.wait(timeout=60) == 0
        assert host.said.endswith("Stopped by SIGINT\n")
        assert_gone(family)
        assert not places_of(tmp_path).run_dir.exists()
        assert not places_of(tmp_path).instance.exists()
        assert (places_of(tmp_path).kept_logs / "raylet.out").exists()


MOMENTS: dict[str, Callable[[Host], object]] = {
    "the folder is claimed": lambda host: places_of(host.data_dir).instance.exists(),
    "the first process of Ray": lambda host: len(host.family()) >= 2,
    "the raylet": lambda host: "raylet" in host.names(),
    "Ray is up": lambda host: "Ray is up" in host.said,
    "Serve's controller": lambda host: any("ServeContro" in name for name in host.names()),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_while_starting_leaves_nothing(tmp_path: Path, moment: str) -> None:
    with launched(tmp_path) as host:
        until(lambda: host.ended or MOMENTS[moment](host), moment, within=120)
        family = host.family()
        os.killpg(host.process.pid, signal.SIGINT)
        assert host.process.wait(timeout=60) == 0, host.said
        assert host.said.endswith("Stopped by SIGINT\n")
        assert "Traceback" not in host.said
        assert_gone(family)
        assert find_in(places_of(tmp_path).run_dir) == []
        assert not places_of(tmp_path).run_dir.exists()
        assert not places_of(tmp_path).instance.exists()


def test_after_a_kill_the_next_start_cleans_up(tmp_path: Path) -> None:
    with started(tmp_path) as killed:
        family = killed.family()
        killed.process.kill()
        killed.process.wait()
    with started(tmp_path) as host:
        assert_gone(family)
        family = host.family()
        sentence = down(tmp_path)
        assert sentence == f"Stopped http://127.0.0.1:{host.port} (pid {host.process.pid})."
        assert_gone(family)
        assert down(tmp_path) == f"Nothing runs on {tmp_path}."


def test_without_haproxy_serve_answers_and_a_second_ctrl_c_kills(tmp_path: Path) -> None:
    env = os.environ | {"RAY_SERVE_HAPROXY_BINARY_PATH": "/nowhere"}
    with started(tmp_path, env=env) as host:
        assert "HAProxy was not found: Serve's own proxy answers" in host.said
        family = host.family()
        threading.Thread(target=_ignore(lambda: host.get("/slow?seconds=20")), daemon=True).start()
        until(lambda: _requests_under_way(host), "the request is under way")
        os.killpg(host.process.pid, signal.SIGINT)
        until(lambda: _stage(tmp_path) == "stopping", "the host is stopping")
        again = time.monotonic() + 0.6  # sooner, it would count as the same Ctrl-C
        until(lambda: time.monotonic() > again, "a person presses again")
        os.killpg(host.process.pid, signal.SIGINT)
        assert host.process.wait(timeout=30) == 130
        assert_gone(family)
    assert down(tmp_path) == f"Nothing runs on {tmp_path}."


def test_a_path_with_spaces_works_in_the_background_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a folder, it's mine"
    folder.mkdir()
    (folder / "venv").symlink_to(sys.prefix)
    port = free_port()
    command = [str(folder / "venv/bin/python"), str(PROGRAM), "--port", str(port)]
    data_dir = folder / "my data"
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    instance = spawn_detached([*command, "--data-dir", str(data_dir)], data_dir)
    try:
        with urlopen(f"{instance.url}/health", timeout=30) as reply:
            assert json.load(reply) == {"ok": True}
        assert os.getsid(instance.pid) == instance.pid
        assert "Serving on" in places_of(data_dir).log.read_text()
    finally:
        sentence = down(data_dir)
    assert sentence == f"Stopped http://127.0.0.1:{port} (pid {instance.pid})."
    assert_gone([instance.host, *instance.processes])


def test_an_ordinary_user_can_run_it() -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if os.getuid() != 0:
        pytest.skip("the other tests have shown it")
    if python is None or not Path(python).resolve().name.endswith(version):
        pytest.skip("no Python that another user could run")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv = _venv_for_everybody(Path(python), folder)
        for made in (folder, *folder.iterdir()):
            os.chown(made, NOBODY, NOBODY)
        with started(folder / "data", python=venv, user=NOBODY, cwd=folder) as host:
            family = host.family()
            owners = {psutil.Process(mark.pid).uids().effective for mark in family}
            assert owners == {NOBODY}
            stop(host, signal.SIGTERM)
            assert_gone(family)


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


@contextmanager
def launched(
    data_dir: Path,
    *,
    port: int | None = None,
    python: Path | None = None,
    env: dict[str, str] | None = None,
    **options: Any,
) -> Iterator[Host]:
    """Start the program, and make sure that nothing of it outlives the test."""
    port = port or free_port()
    env = (env or dict(os.environ)) | {"PYTHONPATH": str(ROOT), "HOME": str(data_dir.parent)}
    with tempfile.NamedTemporaryFile("w", suffix=".out") as output:
        process = subprocess.Popen(
            [python or sys.executable, PROGRAM, "--data-dir", data_dir, "--port", str(port)],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=env,
            text=True,
            **options,
        )
        host = Host(process, data_dir, port, Path(output.name))
        try:
            yield host
        finally:
            if not host.ended:
                stop(host, signal.SIGTERM)


@contextmanager
def started(data_dir: Path, **options: Any) -> Iterator[Host]:
    with launched(data_dir, **options) as host:
        host.wait_until_up()
        yield host


def stop(host: Host, number: signal.Signals) -> None:
    host.process.send_signal(number)
    assert host.process.wait(timeout=60) == 0, host.said


def assert_gone(family: list[Mark]) -> None:
    # Orphans are taken note of by init, which may be a moment late; they run no more by then.
    until(lambda: not any(map(find, family)), "all processes are gone", within=20)


def until(met: Callable[[], object], what: str, within: float = 60) -> None:
    deadline = time.monotonic() + within
    while not met():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.05)


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


def _requests_under_way(host: Host) -> bool:
    return bool(host.get("/under-way")["slow"])


def _stage(data_dir: Path) -> str | None:
    instance = read_instance(places_of(data_dir))
    return instance.stage if instance else None


def _ignore(call: Callable[[], object]) -> Callable[[], None]:
    def attempt() -> None:
        try:
            call()
        except OSError:
            return  # the host is killed with this request under way

    return attempt


def _venv_for_everybody(python: Path, folder: Path) -> Path:
    """A virtual environment with our packages whose Python does not lie in root's home."""
    venv = folder / "venv"
    subprocess.run([python, "-m", "venv", "--without-pip", venv], check=True, timeout=60)
    packages = Path(pytest.__file__).parents[1]
    site = venv / "lib" / packages.parent.name / "site-packages"
    (site / "ours.pth").write_text(f"import site; site.addsitedir({str(packages)!r})\n")
    return venv / "bin" / "python"
