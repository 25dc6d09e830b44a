"""How much of the memory here the server may keep its pages in."""

import os
from collections.abc import Iterable
from pathlib import Path

_SHARE = 8
_LEAST, _MOST = 128, 2048  # megabytes
# What a container may use, in either version of control groups; as seen from inside.
LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def shared_buffers(limits: Iterable[Path] = LIMITS) -> str:
    """An eighth, as Postgres takes it; it is touched only as far as there are pages to keep.

    Under steady traffic what was written some minutes ago is read once more, to be removed. If
    it has left the server's memory by then, the server has to fetch it, and falls behind sooner.
    """
    megabytes = memory(limits) // 2**20 // _SHARE
    return f"{min(_MOST, max(_LEAST, megabytes))}MB"


def memory(limits: Iterable[Path] = LIMITS) -> int:
    """Bytes of the machine, or of the container if that has fewer."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in limits:
        try:
            said = path.read_text().strip()
        except OSError:
            continue
        if said.isdecimal():  # or "max"
            found.append(int(said))
    return min(found)
