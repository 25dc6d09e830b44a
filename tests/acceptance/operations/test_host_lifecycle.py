"""The host from outside, started and stopped: real Ray, real signals, and nothing left behind."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from host.instance import read_instance
from host.lifecycle import down
from host.paths import instance_paths
from host.processes import find_processes_in
from tests.support.hosts import (
    Host,
    assert_gone,
    launched,
    requests_under_way,
    started,
    stop,
    until,
)

NOBODY = 65534


MOMENTS: dict[str, Callable[[Host], object]] = {
    "the folder is claimed": lambda host: instance_paths(host.data_dir).instance.exists(),
    "the first process of Ray": lambda host: len(host.family()) >= 2,
    "the raylet": lambda host: "raylet" in host.names(),
    "Ray is up": lambda host: "Ray is up" in host.said,
    "Serve's controller": lambda host: any("ServeContro" in name for name in host.names()),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_while_starting_leaves_nothing(tmp_path: Path, moment: str) -> None:
    with launched(tmp_path) as host:
        host.until(lambda: MOMENTS[moment](host), moment)
        family = host.family()
        os.killpg(host.process.pid, signal.SIGINT)
        assert host.process.wait(timeout=60) == 0, host.said
        assert host.said.endswith("Stopped by SIGINT\n")
        assert "Traceback" not in host.said
        assert_gone(family)
        assert find_processes_in(instance_paths(tmp_path).run_dir) == []
        assert not instance_paths(tmp_path).run_dir.exists()
        assert not instance_paths(tmp_path).instance.exists()


def test_without_haproxy_serve_answers_and_a_second_ctrl_c_kills(tmp_path: Path) -> None:
    env = os.environ | {"RAY_SERVE_HAPROXY_BINARY_PATH": "/nowhere"}
    with started(tmp_path, env=env) as host:
        assert "HAProxy was not found: Serve's own proxy is used" in host.said
        family = host.family()
        threading.Thread(target=_ignore(lambda: host.get("/slow?seconds=20")), daemon=True).start()
        until(lambda: requests_under_way(host), "the request is under way")
        os.killpg(host.process.pid, signal.SIGINT)
        until(lambda: _stage(tmp_path) == "stopping", "the host is stopping")
        again = time.monotonic() + 0.6  # sooner, it would count as the same Ctrl-C
        until(lambda: time.monotonic() > again, "a person presses again")
        os.killpg(host.process.pid, signal.SIGINT)
        assert host.process.wait(timeout=30) == 130
        assert_gone(family)
    assert down(tmp_path) == f"Nothing runs on {tmp_path}."


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


def _stage(data_dir: Path) -> str | None:
    instance = read_instance(instance_paths(data_dir))
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
