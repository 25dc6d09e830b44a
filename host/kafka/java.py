"""Finds a Java that Apache Kafka runs on."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from host.errors import MissingPartError

MIN_JAVA_VERSION = 17
INSTALLED = (
    Path("/usr/lib/jvm"),
    Path("/Library/Java/JavaVirtualMachines"),
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True, slots=True)
class Java:
    program: Path
    version: int


def find_java(environment: Mapping[str, str]) -> Java:
    """Find the first Java that is new enough: JAVA_HOME's, the PATH's, then any installed."""
    found: list[Java] = []
    for program in _candidates(environment):
        version = _ask(program)
        if version is None:
            continue
        if version >= MIN_JAVA_VERSION:
            return Java(program, version)
        found.append(Java(program, version))
    old = "".join(f" {java.program} is Java {java.version}." for java in found)
    raise MissingPartError(f"Java {MIN_JAVA_VERSION} or newer was not found.{old}")


def major_version(told: str) -> int | None:
    """Read the major version from the output of `java -version`; Java 8 calls itself 1.8."""
    match = _VERSION.search(told)
    return int(match[1]) if match else None


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java", path=environment.get("PATH")):
        yield Path(on_path)
    for folder in INSTALLED:
        yield from sorted(folder.glob("*/bin/java"))
        yield from sorted(folder.glob("*/Contents/Home/bin/java"))


def _ask(program: Path) -> int | None:
    try:
        done = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return major_version(done.stderr)
