"""Where figures come from: the machine, the software, the commit."""

import os
import platform
import re
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from bench.stage import Stage
from bench.tables import connected

ROOT = Path(__file__).parents[1]
PAGE = b"\0" * 8192


async def describe(stage: Stage) -> dict[str, Any]:
    """What a reader needs to judge the figures."""
    async with connected(stage.server.dsn) as conn:
        postgres = await conn.fetchval("show server_version")
        fsync = await conn.fetchval("show fsync")
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 1024**3),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "ray": version("ray"),
        "postgres": postgres,
        "fsync": fsync,
        "syncs_per_second": _syncs_per_second(stage.places.data_dir),
    }


def commit() -> str:
    """The commit that runs, with a `+` where files differ from it; records of runs may."""
    try:
        changed = _git("status", "--porcelain", "--", ".", ":!docs/performance.*")
        return _git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def today() -> str:
    """The date in UTC."""
    return datetime.now(UTC).date().isoformat()


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    found = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else platform.machine()


def _syncs_per_second(folder: Path, seconds: float = 1.0) -> int:
    """How often a page can be written and synced, as Postgres does at each commit.

    Thousands a second mean that the volume answers before a disk has turned: then durable figures
    measure CPU more than the disk.
    """
    count, until = 0, time.monotonic() + seconds
    with tempfile.TemporaryFile(dir=folder) as file:
        while time.monotonic() < until:
            os.pwrite(file.fileno(), PAGE, 0)
            os.fdatasync(file.fileno())
            count += 1
    return round(count / seconds)
