"""The files of an instance: lasting ones in the data folder, temporary ones in /tmp."""

import hashlib
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from host.errors import HostError

# Ray and HAProxy put unix sockets below the run folder. A socket's path may have 107 bytes and
# theirs need about 80 of them, so the run folder lies in /tmp whatever TMPDIR or the home say.
RUN_ROOT = Path("/tmp")  # noqa: S108  the folder in it is private: see _make_private


@dataclass(frozen=True, slots=True)
class PathBelow:
    """A path of a fixed name below a folder of the object that has it."""

    folder: str
    name: str

    def __get__(self, owner: object, _: type) -> Path:
        folder: Path = getattr(owner, self.folder)
        return folder / self.name


@dataclass(frozen=True, slots=True)
class InstancePaths:
    data_dir: Path
    run_dir: Path
    instance = PathBelow("data_dir", "instance.json")
    """Describes the host that runs here: `HostInstance` as JSON."""
    lock = PathBelow("data_dir", "lock")
    """Held by the host as long as it lives."""
    token = PathBelow("data_dir", "ray-token")
    """The secret by which Ray's processes authenticate each other."""
    secret_key = PathBelow("data_dir", "secret_key")
    """The encryption keys, where no setting has them."""
    log = PathBelow("data_dir", "muster.log")
    """The output of a detached host."""
    kept_logs = PathBelow("data_dir", "ray-logs")
    """Ray's logs of the last run."""
    kafka = PathBelow("data_dir", "kafka")
    """Data, configuration and log of the embedded Kafka."""
    ray = PathBelow("run_dir", "ray")
    """Ray's temporary folder."""
    haproxy = PathBelow("run_dir", "h")
    """HAProxy's configuration and sockets."""


def instance_paths(data_dir: Path) -> InstancePaths:
    """Return the paths of an instance; touches no file."""
    data_dir = Path(os.path.realpath(data_dir.expanduser()))
    key = hashlib.sha256(f"{os.getuid()}:{data_dir}".encode()).hexdigest()[:8]
    return InstancePaths(data_dir, RUN_ROOT / f"muster-{key}")


def prepare_data_dir(places: InstancePaths) -> None:
    """Make the data folder and check that it is writable."""
    try:
        places.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=places.data_dir):
            pass
    except OSError as error:
        raise HostError(
            f"Cannot write to the data folder {places.data_dir}: {_reason(error)}. "
            "Choose another with --data-dir."
        ) from error


def prepare_run_dir(places: InstancePaths) -> None:
    """Make a fresh run folder that no other user can enter."""
    try:
        _make_private(places.run_dir)
        places.haproxy.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise HostError(f"Cannot use {places.run_dir}: {_reason(error)}.") from error


def discard_run_dir(places: InstancePaths) -> None:
    """Remove the run folder of an ended instance, keeping Ray's logs."""
    logs = places.ray / "session_latest" / "logs"
    if logs.is_dir():
        shutil.rmtree(places.kept_logs, ignore_errors=True)
        shutil.copytree(logs.resolve(), places.kept_logs, symlinks=True, ignore=_sockets)
        places.kept_logs.chmod(0o700)  # Ray's own folder is open to all
    shutil.rmtree(places.run_dir, ignore_errors=True)


def _make_private(folder: Path) -> None:
    # The name can be guessed and /tmp belongs to all: a folder or link that another user put
    # there first must not be trusted.
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(None, "it belongs to somebody else")
    folder.chmod(0o700)


def _sockets(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if Path(folder, name).is_socket()}


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
