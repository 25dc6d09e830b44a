import os
from pathlib import Path

import pytest

from host.errors import HostError
from host.paths import (
    InstancePaths,
    discard_run_dir,
    instance_paths,
    prepare_data_dir,
    prepare_run_dir,
)


def test_one_folder_has_one_set_of_places_however_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    named = {tmp_path / "data", tmp_path / "link", tmp_path / "data" / ".." / "data"}
    assert len({instance_paths(path) for path in named}) == 1


def test_two_folders_never_share_a_run_folder(tmp_path: Path) -> None:
    assert instance_paths(tmp_path / "a").run_dir != instance_paths(tmp_path / "b").run_dir


def test_sockets_below_the_run_folder_fit_the_kernels_limit() -> None:
    places = instance_paths(Path("/a/very/long/folder" * 20))
    node_id = "f" * 56
    longest = max(
        places.haproxy / node_id / "metrics.sock.1234567.tmp",
        places.ray / "session_2026-11-16_01-28-36_532293_1234567/sockets/plasma_store",
        key=lambda path: len(str(path)),
    )
    assert len(str(longest)) <= 107


def test_a_data_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match=r"^Cannot write to the data folder .*--data-dir\.$"):
        prepare_data_dir(instance_paths(tmp_path / "file" / "data"))


def test_the_run_folder_is_closed_to_others(tmp_path: Path) -> None:
    places = _places(tmp_path)
    places.run_dir.mkdir(mode=0o777)
    prepare_run_dir(places)
    assert places.run_dir.stat().st_mode & 0o777 == 0o700


def test_a_run_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    places = _places(tmp_path)
    places.run_dir.symlink_to(tmp_path)
    with pytest.raises(HostError, match="belongs to somebody else"):
        prepare_run_dir(places)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_run_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    places = _places(tmp_path)
    places.run_dir.mkdir()
    os.chown(places.run_dir, 12345, 12345)
    with pytest.raises(HostError, match="belongs to somebody else"):
        prepare_run_dir(places)


def test_the_logs_outlive_the_run_folder(tmp_path: Path) -> None:
    places = _places(tmp_path)
    prepare_data_dir(places)
    for text in ("first", "second"):
        prepare_run_dir(places)
        logs = places.ray / "session_1" / "logs"
        logs.mkdir(parents=True)
        (logs / "raylet.out").write_text(text)
        (places.ray / "session_latest").symlink_to("session_1")
        discard_run_dir(places)
        assert not places.run_dir.exists()
        assert (places.kept_logs / "raylet.out").read_text() == text


def _places(tmp_path: Path) -> InstancePaths:
    return InstancePaths(tmp_path / "data", tmp_path / "run")
