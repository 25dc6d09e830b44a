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
class InstancePaths:
    """Every path of one instance."""

    data_dir: Path
    run_dir: Path

    @property
    def instance(self) -> Path:
        """Describes the host that runs here: `HostInstance` as JSON."""
        return self.data_dir / "instance.json"

    @property
    def lock(self) -> Path:
        """Held by the host as long as it lives."""
        return self.data_dir / "lock"

    @property
    def token(self) -> Path:
        """The secret by which Ray's processes authenticate each other."""
        return self.data_dir / "ray-token"

    @property
    def secret_key(self) -> Path:
        """The encryption keys, where no setting has them."""
        return self.data_dir / "secret_key"

    @property
    def log(self) -> Path:
        """The output of a detached host."""
        return self.data_dir / "muster.log"

    @property
    def kept_logs(self) -> Path:
        """Ray's logs of the last run."""
        return self.data_dir / "ray-logs"

    @property
    def kafka(self) -> Path:
        """Data, configuration and log of the embedded Kafka."""
        return self.data_dir / "kafka"

    @property
    def ray(self) -> Path:
        """Ray's temporary folder."""
        return self.run_dir / "ray"

    @property
    def haproxy(self) -> Path:
        """HAProxy's configuration and sockets."""
        return self.run_dir / "h"


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
