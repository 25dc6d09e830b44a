"""The processes of an instance: how they are identified and ended."""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil
from pydantic import BaseModel

PROCESS_GONE = (psutil.NoSuchProcess, psutil.ZombieProcess)


class ProcessIdentity(BaseModel, frozen=True):
    """Identifies a process for good: the system may reuse its pid."""

    pid: int
    born: str
    name: str = ""


def identify_process(pid: int) -> ProcessIdentity | None:
    try:
        return ProcessIdentity(pid=pid, born=_birth_of(pid), name=psutil.Process(pid).name())
    except (FileNotFoundError, ProcessLookupError, *PROCESS_GONE):
        return None


def find_process(mark: ProcessIdentity) -> psutil.Process | None:
    """Return the process if it still runs; never another one with its pid."""
    now = identify_process(mark.pid)
    if now is None or now.born != mark.born:
        return None
    process = psutil.Process(mark.pid)
    return process if _runs(process) else None


def _birth_of(pid: int) -> str:
    # Ticks since boot (field 22) and the id of the boot. A time of day would change with the clock,
    # and the process would seem to be another one.
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}/{ticks}"


def find_processes_in(run_dir: Path) -> list[psutil.Process]:
    """Find all processes that work in the run folder, whatever their parent is.

    Ray's processes overwrite their command line and environment, but keep their working folder, in
    which the host starts nothing but Ray.
    """
    return [process for process in psutil.process_iter() if _works_in(process, run_dir)]


def process_name(process: psutil.Process) -> str:
    try:
        return process.name()
    except PROCESS_GONE:
        return ""


def terminate_all(
    list_processes: Callable[[], Iterable[psutil.Process]], *, grace: float, within: float = 10.0
) -> list[psutil.Process]:
    """Terminate the listed processes, then kill them; return those that could not be ended.

    The list is read again each round: a process that is being ended may have started another.
    """
    asked: set[psutil.Process] = set()
    kill_from = time.monotonic() + grace
    deadline = kill_from + within
    while left := [process for process in list_processes() if _runs(process)]:
        now = time.monotonic()
        if now > deadline:
            return left
        for process in left:
            if now >= kill_from:
                _send(process, psutil.Process.kill)
            elif process not in asked:
                _send(process, psutil.Process.terminate)
                asked.add(process)
        psutil.wait_procs(left, timeout=0.1)
    return []


def _send(process: psutil.Process, signal: Callable[[psutil.Process], None]) -> None:
    try:
        signal(process)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return  # ended, or not ours: the caller reports what is left at its deadline


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except PROCESS_GONE:
        return False


def _works_in(process: psutil.Process, run_dir: Path) -> bool:
    if process.pid == os.getpid():
        return False
    try:
        folder = process.cwd().removesuffix(" (deleted)")
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return False
    return folder == str(run_dir) or folder.startswith(f"{run_dir}/")
