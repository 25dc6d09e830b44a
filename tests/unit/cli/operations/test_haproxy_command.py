import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.commands import COMMANDS, app
from cli.operations.haproxy_command import MAX_PATH_BYTES, proxy_limits_of
from host.proxy.haproxy import LAUNCHER, find_program
from settings.settings import Settings


@pytest.fixture
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path that is short wherever the tests run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cli.operations.haproxy_command.MAX_PATH_BYTES", 4_096)
    return tmp_path / "front"


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["haproxy", *words])
    return done.exit_code, done.output


def test_it_is_a_command() -> None:
    assert "haproxy" in {entry.name for entry in COMMANDS}


def test_the_program_lies_in_a_folder_of_its_own(short: Path) -> None:
    code, told = run(str(short))
    assert code == 0, told
    assert told.strip() == str(short / LAUNCHER)
    assert stat.S_IMODE(short.stat().st_mode) == 0o700
    assert stat.S_IMODE((short / LAUNCHER).stat().st_mode) == 0o700
    assert str(find_program()) in (short / LAUNCHER).read_text()


def test_written_again_it_does_not_start_itself(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = str(find_program())
    monkeypatch.setenv("RAY_SERVE_HAPROXY_BINARY_PATH", str(short / LAUNCHER))
    for _ in range(2):
        assert run(str(short))[0] == 0
        assert f"exec {program} " in (short / LAUNCHER).read_text()


def test_an_open_folder_is_closed_and_a_foreign_thing_refused(short: Path) -> None:
    short.mkdir(mode=0o755)
    assert run(str(short))[0] == 0
    assert stat.S_IMODE(short.stat().st_mode) == 0o700
    link = short.parent / "link"
    link.symlink_to(short)
    code, told = run(str(link))
    assert code == 1
    assert "not a folder that you own" in told


def test_a_path_that_no_socket_can_have_is_refused() -> None:
    code, told = run("/" + "x" * MAX_PATH_BYTES)
    assert code == 1
    assert f"at most {MAX_PATH_BYTES} characters" in told


def test_the_bounds_are_those_of_the_settings() -> None:
    bounds = proxy_limits_of(Settings.load({"request_timeout": 3.5, "source_connections": 7}))
    assert (bounds.body_seconds, bounds.source_connections) == (3.5, 7)
