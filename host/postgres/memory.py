"""How much memory the embedded server uses for its page cache."""

import os
from collections.abc import Iterable
from pathlib import Path

_SHARE = 8
_LEAST, _MOST = 128, 2048  # megabytes
# The limit of a container in either version of control groups, as seen from inside.
LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def shared_buffers(limits: Iterable[Path] = LIMITS) -> str:
    """Return an eighth of the memory, in the syntax of Postgres.

    Rows are read once more some minutes after they were written, to be removed. If their pages have
    left the cache by then, the server falls behind sooner. Memory is used only as pages fill it.
    """
    megabytes = memory(limits) // 2**20 // _SHARE
    return f"{min(_MOST, max(_LEAST, megabytes))}MB"


def memory(limits: Iterable[Path] = LIMITS) -> int:
    """Return the bytes of memory of the machine, or of the container if that has less."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in limits:
        try:
            said = path.read_text().strip()
        except OSError:
            continue
        if said.isdecimal():  # or "max"
            found.append(int(said))
    return min(found)
