import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from host.processes import (
    ProcessIdentity,
    find_process,
    find_processes_in,
    identify_process,
    terminate_all,
)

STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); "


def test_a_marked_process_is_found_again(tmp_path: Path) -> None:
    with _sleeper(tmp_path) as child:
        mark = identify_process(child.pid)
        assert mark is not None
        found = find_process(ProcessIdentity.model_validate_json(mark.model_dump_json()))
        assert found is not None
        assert found.pid == child.pid


def test_another_process_with_the_same_number_is_not_taken_for_it(tmp_path: Path) -> None:
    with _sleeper(tmp_path) as child:
        mark = identify_process(child.pid)
        assert mark is not None
        for other in ("0", mark.born + "1", "another-boot/" + mark.born.partition("/")[2]):
            assert find_process(mark.model_copy(update={"born": other})) is None


def test_an_ended_process_is_not_found(tmp_path: Path) -> None:
    with _sleeper(tmp_path) as child:
        mark = identify_process(child.pid)
        assert mark is not None
    assert find_process(mark) is None
    assert identify_process(child.pid) is None


def test_a_zombie_counts_as_ended(tmp_path: Path) -> None:
    with _sleeper(tmp_path) as child:
        mark = identify_process(child.pid)
        assert mark is not None
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert find_process(mark) is None


def test_processes_are_known_by_the_folder_they_work_in(tmp_path: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "run-2"
    run.mkdir()
    other.mkdir()
    with _sleeper(run) as mine, _sleeper(other):
        assert [process.pid for process in find_processes_in(run)] == [mine.pid]
        run.rmdir()
        assert [process.pid for process in find_processes_in(run)] == [mine.pid]


def test_this_process_is_never_found(tmp_path: Path) -> None:
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert find_processes_in(tmp_path) == []
    finally:
        os.chdir(before)


def test_what_does_not_end_when_asked_is_killed(tmp_path: Path) -> None:
    with _sleeper(tmp_path, STUBBORN) as stubborn, _sleeper(tmp_path) as willing:
        ending = {stubborn.pid: 0.0, willing.pid: 0.0}
        started = time.monotonic()

        def look() -> list[psutil.Process]:
            found = find_processes_in(tmp_path)
            for process in found:
                ending[process.pid] = time.monotonic() - started
            return found

        assert terminate_all(look, grace=0.5) == []
        assert ending[willing.pid] < 0.5 <= ending[stubborn.pid]


def test_what_is_started_meanwhile_is_ended_too(tmp_path: Path) -> None:
    with _sleeper(tmp_path) as first, _sleeper(tmp_path) as late:
        rounds = iter([[first.pid], [first.pid, late.pid]])

        def look() -> list[psutil.Process]:
            wanted = next(rounds, [late.pid])
            return [process for process in find_processes_in(tmp_path) if process.pid in wanted]

        assert terminate_all(look, grace=0.2) == []
        assert not find_processes_in(tmp_path)


@contextmanager
def _sleeper(
    folder: Path, before: str = "print(flush=True); "
) -> Iterator["subprocess.Popen[bytes]"]:
    code = before + "import time; time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", code], cwd=folder, stdout=subprocess.PIPE
    ) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            yield child
        finally:
            child.kill()
