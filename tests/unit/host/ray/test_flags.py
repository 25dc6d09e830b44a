import os
import sys
from pathlib import Path

import pytest

from host.errors import HostError
from host.paths import InstancePaths
from host.ray import flags
from host.ray.flags import FIXED, TUNING, ProxySetup, client_flags, host_flags

PLACES = InstancePaths(Path("/data"), Path("/tmp/muster-12345678"))
BEHIND_HAPROXY = ProxySetup(Path("/tmp/muster-12345678/h/haproxy"), 41000, range(20000, 20100))
WITHOUT = ProxySetup(None, 41000, range(20000, 20100))
ROOT = str(Path(flags.__file__).resolve().parents[2])


def test_every_flag_is_set_once_and_says_why() -> None:
    names = [flag.name for flag in (*FIXED, *TUNING)]
    assert len(names) == len(set(names))
    assert all(flag.why for flag in (*FIXED, *TUNING))


def test_the_environment_wins_over_tuning() -> None:
    given = {"RAY_worker_niceness": "7"}
    assert host_flags(PLACES, BEHIND_HAPROXY, given)["RAY_worker_niceness"] == "7"


def test_the_environment_does_not_win_over_what_keeps_the_node_closed() -> None:
    given = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN_PATH": "/elsewhere"}
    resolved = host_flags(PLACES, BEHIND_HAPROXY, given)
    assert resolved["RAY_AUTH_MODE"] == "token"
    assert resolved["RAY_AUTH_TOKEN_PATH"] == "/data/ray-token"


def test_a_second_driver_shows_the_same_token() -> None:
    joining, hosting = client_flags(PLACES), host_flags(PLACES, BEHIND_HAPROXY, {})
    assert joining.items() <= hosting.items()


def test_no_file_of_haproxy_lies_in_a_folder_that_others_share() -> None:
    resolved = host_flags(PLACES, BEHIND_HAPROXY, {})
    paths = [value for name, value in resolved.items() if name.startswith("RAY_SERVE_HAPROXY_")]
    paths = [path for path in paths if "/" in path]
    assert len(paths) == 6
    assert all(path.startswith(str(PLACES.haproxy)) for path in paths)


def test_without_haproxy_serve_answers_itself() -> None:
    resolved = host_flags(PLACES, WITHOUT, {})
    assert resolved["RAY_SERVE_ENABLE_HA_PROXY"] == "0"
    assert "RAY_SERVE_HAPROXY_BINARY_PATH" not in resolved


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ROOT),
        ("/mine", os.pathsep.join([ROOT, "/mine"])),
        (os.pathsep.join(["/mine", ROOT]), os.pathsep.join([ROOT, "/mine"])),
    ],
)
def test_workers_import_the_code_that_the_host_runs(before: str, after: str) -> None:
    resolved = host_flags(PLACES, BEHIND_HAPROXY, {"PYTHONPATH": before})
    assert resolved["PYTHONPATH"] == after


def test_flags_that_come_too_late_are_refused() -> None:
    assert "ray" in sys.modules
    with pytest.raises(HostError, match="imported before"):
        flags.apply({"RAY_AUTH_MODE": "token"})
