"""What the processes of an instance, a broker or a cluster said last, wherever a test fails.

Whoever starts some says where they write. If the start or the stop fails, its error tells what was
written there at last; if a test fails while they run, its report does.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from host.paths import instance_paths
from host.postgres.paths import ServerPaths

LINES, WIDTH, MOST = 15, 300, 24_000
# What is looked at in a folder, and how many files of each kind: the newest that say anything.
KINDS = (
    (re.compile(r"controller_.*\.log|replica_.*\.log|proxy_.*\.log"), 6),
    (re.compile(r".*sock.*\.std(err|out)\.log"), 3),  # HAProxy's
    (re.compile(r"worker-.*\.err"), 10),
    (re.compile(r"(raylet|gcs_server|monitor|dashboard)\.(err|out|log)"), 6),
    (re.compile(r"(muster|postgres|replica|kafka|server|mock|broker).*\.log|errors\.txt"), 4),
    (re.compile(r"python-core-(worker|driver)-.*\.log"), 2),
)
# Ray's statistics of itself.
_NOISE = re.compile(
    r"^:(job_id|actor_name|task_name):|^\s|^$|^-+$|[Ee]vent stats:|^Global stats|ing time: "
    r"|Execution time: |Task Event Buffer|^\[state-dump\]|^- ?"
)
_watched: dict[Path, tuple[Path, ...]] = {}


def of_instance(data_dir: Path) -> tuple[Path, ...]:
    """Where the processes of an instance write, while it runs and after."""
    places = instance_paths(data_dir)
    database = ServerPaths.at(places.data_dir)
    return (places.log, places.run_dir, places.kept_logs, database.log, places.kafka)


@contextmanager
def watched(*where: Path) -> Iterator[None]:
    """Tell what was written to these files and folders if the block fails, or a test meanwhile."""
    _watched[where[0]] = where
    try:
        yield
    except Exception as error:
        error.add_note(last_log_lines(*where))
        raise
    finally:
        _watched.pop(where[0], None)


def last_log_lines(*where: Path) -> str:
    """The last lines of these files, and of the logs in these folders."""
    told, left = [], MOST
    for file in _files(where):
        words = _tail(file)
        if words and left > 0:
            told.append(f"--- {file}\n{words}"[:left])
            left -= len(told[-1])
    return "\n".join(told) or f"--- nothing was written to {', '.join(map(str, where))}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Add to the report of a failure what runs beside the test has said."""
    report: pytest.TestReport = yield  # type: ignore[misc]
    if report.failed:
        for name, where in list(_watched.items()):
            report.sections.append((f"last log lines of {name}", last_log_lines(*where)))
    return report  # type: ignore[return-value]


def _files(where: tuple[Path, ...]) -> Iterator[Path]:
    for path in where:
        if path.is_file():
            yield path
    found = [file for path in where if path.is_dir() for file in _logs_below(path)]
    seen = {path.resolve() for path in where}
    for pattern, most in KINDS:
        matching = [file for file in found if pattern.fullmatch(file.name) and file not in seen]
        seen.update(matching)
        talkative = [file for file in sorted(matching, key=_changed, reverse=True) if _tail(file)]
        yield from talkative[:most]


def _logs_below(folder: Path) -> set[Path]:
    """Files that are no links: Ray has the same folder under two names."""
    return {file.resolve() for file in folder.rglob("*.*") if file.is_file()}


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0  # it is gone by now


def _tail(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - 20 * LINES * WIDTH))
            lines = opened.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    telling = [line for line in lines if not _NOISE.search(line)]
    return "\n".join(line[:WIDTH] for line in telling[-LINES:])
