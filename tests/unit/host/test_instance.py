import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from host.client import running_instance
from host.detach import last_lines, spawn_detached
from host.errors import HostError
from host.instance import (
    HostInstance,
    HostStage,
    is_locked,
    read_instance,
    sole_host,
    write_instance,
)
from host.lifecycle import down, end_leftovers
from host.paths import InstancePaths, instance_paths
from host.processes import ProcessIdentity
from storage.encryption.key_file import write_private


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    places = instance_paths(tmp_path)
    write_instance(places, _instance(places))
    assert read_instance(places) == _instance(places)


def test_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "{", '{"pid": 1}', "[]"])
def test_a_damaged_file_counts_as_none(tmp_path: Path, text: str) -> None:
    places = instance_paths(tmp_path)
    places.instance.write_text(text)
    assert read_instance(places) is None
    assert end_leftovers(places) == 0


def test_a_second_host_is_told_who_the_first_is(tmp_path: Path) -> None:
    places = instance_paths(tmp_path)
    write_instance(places, _instance(places))
    with sole_host(places):
        assert is_locked(places)
        with (
            pytest.raises(HostError, match=r"already runs on .* \(pid 1, http://127.0.0.1:8000\)"),
            sole_host(places),
        ):
            pass
    assert not is_locked(places)


def test_the_lock_ends_with_the_process_that_held_it(tmp_path: Path) -> None:
    places = instance_paths(tmp_path)
    code = (
        "import os, pathlib\n"
        "from host.instance import sole_host\n"
        "from host.paths import instance_paths\n"
        f"paths = instance_paths(pathlib.Path({str(tmp_path)!r}))\n"
        "with sole_host(paths): os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False, timeout=30)
    assert places.lock.exists()
    assert not is_locked(places)


def test_down_says_so_when_nothing_runs(tmp_path: Path) -> None:
    assert down(tmp_path / "never used") == f"Nothing runs on {tmp_path / 'never used'}."
    assert not (tmp_path / "never used").exists()


def test_a_number_that_another_process_has_by_now_is_left_alone(tmp_path: Path) -> None:
    places = instance_paths(tmp_path)
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        stale = ProcessIdentity(pid=child.pid, born="another-boot/1", name="raylet")
        write_instance(places, _instance(places).model_copy(update={"processes": (stale,)}))
        assert end_leftovers(places) == 0
        assert child.poll() is None
        assert read_instance(places) is None
        child.kill()


def test_only_a_living_host_counts_as_running(tmp_path: Path) -> None:
    places = instance_paths(tmp_path)
    write_instance(places, _instance(places))
    with pytest.raises(HostError, match="Nothing runs on"):
        running_instance(tmp_path)


def test_a_background_host_that_fails_shows_its_last_lines(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", "print('the port is taken'); raise SystemExit(1)"]
    with pytest.raises(HostError, match=r"did not start\.\nthe port is taken$"):
        spawn_detached(command, tmp_path, quiet=30)


def test_a_background_host_that_hangs_is_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    with pytest.raises(HostError, match="not up after 0 s"):
        spawn_detached(command, tmp_path, quiet=0.3)


def test_a_background_host_does_not_touch_the_log_of_a_running_one(tmp_path: Path) -> None:
    places = instance_paths(tmp_path)
    places.log.write_text("precious")
    with sole_host(places), pytest.raises(HostError, match="already runs"):
        spawn_detached(["true"], tmp_path)
    assert places.log.read_text() == "precious"


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("\n".join(str(number) for number in range(100)))
    assert last_lines(tmp_path / "log", 2) == "98\n99"
    assert last_lines(tmp_path / "none") == ""


def _instance(places: InstancePaths) -> HostInstance:
    return HostInstance(
        host=ProcessIdentity(pid=1, born="an-earlier-boot/1"),
        stage=HostStage.UP,
        url="http://127.0.0.1:8000",
        port=8000,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        data_dir=places.data_dir,
        run_dir=places.run_dir,
    )
