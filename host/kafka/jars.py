"""The jars of Apache Kafka: where they are, and how Maven downloads them into a cache once.

`python -m host.kafka.jars` downloads them ahead of time, for tests and for machines without
network. Maven verifies what it downloads and knows the user's mirrors.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from host.errors import MissingPartError

Say = Callable[[str], None]
POM = Path(__file__).with_name("pom.xml")
FETCH_WITHIN = 900.0
SAY_EVERY = 5.0
_POLL = 0.1
_SERVER_JAR = re.compile(r"kafka_2\.\d+-(\d[\w.-]*)\.jar")


@dataclass(frozen=True, slots=True)
class Jars:
    """A folder with the jars of one version of Apache Kafka."""

    folder: Path
    version: str


def pinned_version(pom: str | None = None) -> str:
    """Read the version from the pom, the only place that names it."""
    match = re.search(r"<kafka\.version>([^<]+)<", POM.read_text() if pom is None else pom)
    if match is None:
        raise ValueError("the pom has no kafka.version")
    return match[1]


def cache_folder(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "~"), ".cache")
    return Path(base).expanduser() / "muster" / f"kafka-{pinned_version()}"


def find_jars(folder: Path) -> Jars | None:
    """Find the jars in a folder: our cache, or the `libs` of a Kafka release."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return None
    servers = [match for match in map(_SERVER_JAR.fullmatch, names) if match]
    return Jars(folder, servers[-1][1]) if servers else None


def fetch_jars(folder: Path, say: Say) -> Jars:
    """Let Maven download the jars; `folder` appears complete or not at all."""
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingPartError(
            f"the jars of Apache Kafka are not in {folder} and Maven, which would fetch them, was "
            "not found."
        )
    say(f"Fetching Apache Kafka {pinned_version()} into {folder} (about 45 MB, only this once)")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".kafka-") as fresh:
            _run_maven(maven, Path(fresh), say)
            if not folder.exists() or not any(folder.iterdir()):
                Path(fresh, "jars").rename(folder)
    except OSError as error:
        raise MissingPartError(f"{folder} cannot be written ({error.strerror}).") from error
    jars = find_jars(folder)
    if jars is None:
        raise MissingPartError(f"{folder} holds other files than the jars of Apache Kafka.")
    return jars


def _run_maven(maven: str, fresh: Path, say: Say) -> None:
    log = fresh / "maven.log"
    command = [maven, "--batch-mode", "--strict-checksums", "--file", str(POM)]
    command += ["org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={fresh / 'jars'}"]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as run,
        log.open("rb") as progress,
    ):
        try:
            _follow(run, progress, say)
        finally:
            run.kill()
    if run.returncode != 0:
        raise MissingPartError(
            f"Maven could not fetch the jars of Apache Kafka: {maven_error(log.read_text())} "
            "Connect to the network once, or name a folder with the jars in MUSTER_KAFKA_JARS."
        )


def _follow(run: "subprocess.Popen[bytes]", progress: IO[bytes], say: Say) -> None:
    started = said = time.monotonic()
    files = 0
    while run.poll() is None:
        files += sum(line.startswith(b"[INFO] Downloaded") for line in progress)
        now = time.monotonic()
        if now - started > FETCH_WITHIN:
            raise MissingPartError(
                f"Maven did not fetch the jars of Apache Kafka within {FETCH_WITHIN:.0f} s."
            )
        if now - said >= SAY_EVERY:
            say(f"  {files} files, {now - started:.0f} s")
            said = now
        time.sleep(_POLL)


def maven_error(log: str) -> str:
    """Return the first error in Maven's output, without its URLs."""
    errors = [
        line.removeprefix("[ERROR]").strip() for line in log.splitlines() if "[ERROR]" in line
    ]
    first = next(filter(None, errors), "it gave no reason")
    return re.sub(r"\s*\(?https?://\S+", "", first).split(" -> [Help")[0].rstrip(". ") + "."


def main() -> int:
    """Download the jars unless they are present; without them the mock broker is used."""
    from settings.settings import Settings  # noqa: PLC0415  the only reader of settings

    folder = Settings.load().kafka_jars or cache_folder(os.environ)
    try:
        jars = find_jars(folder) or fetch_jars(folder, _print)
    except MissingPartError as error:
        _print(f"WARNING: no Apache Kafka, so librdkafka's mock broker takes its place: {error}")
        return 0
    _print(f"Apache Kafka {jars.version} is in {jars.folder}")
    return 0


def _print(sentence: str) -> None:
    print(sentence, flush=True)


if __name__ == "__main__":
    sys.exit(main())
