"""What is installed is what was pinned, to the byte; and what Muster runs on can be listed."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SETS = ("runtime", "dev", "bench")
_PIN = re.compile(r"^([a-z0-9][a-z0-9-]*)==([^\s;\\]+)(?: ; ([^\\]+?))? \\$")
_HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$")


def pins(name: str) -> dict[tuple[str, str], str]:
    """Versions by name and marker; every line is a pin or a hash of the pin before it."""
    found: dict[tuple[str, str], str] = {}
    hashes = 1
    for line in (ROOT / f"requirements/{name}.txt").read_text().splitlines():
        if told := _PIN.match(line):
            assert hashes, f"before {line}"
            hashes = 0
            found[told[1], told[3] or ""] = told[2]
        else:
            assert _HASH.match(line), line
            hashes += 1
    assert hashes
    return found


def wanted(*extras: str) -> set[str]:
    """The names in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"]]
    for extra in extras:
        texts += project["optional-dependencies"][extra]
    names = {re.split(r"[\[<>=~ ]", text)[0].lower().replace("_", "-") for text in texts}
    return names - {"muster"}


@pytest.mark.parametrize("name", SETS)
def test_every_package_is_pinned_with_its_hashes_and_no_address(name: str) -> None:
    extras = {"runtime": (), "dev": ("dev", "embedded"), "bench": ("bench", "embedded")}[name]
    assert wanted(*extras) <= {package for package, _ in pins(name)}
    assert "://" not in (ROOT / f"requirements/{name}.txt").read_text()
    # Our own code is installed without a network: what builds it is pinned as well.
    assert ("setuptools", "") in pins(name)


def test_every_set_has_the_same_versions() -> None:
    dev = pins("dev")
    for name in ("runtime", "bench"):
        both = pins(name).keys() & dev.keys()
        assert {key: pins(name)[key] for key in both} == {key: dev[key] for key in both}
    assert pins("runtime").keys() <= dev.keys()


@pytest.mark.parametrize("file", ["Makefile", "cluster.yaml"])
def test_what_is_installed_is_checked_against_the_hashes(file: str) -> None:
    text = (ROOT / file).read_text().replace("$(INSTALL)", "pip install --no-deps")
    # `make constraints` and `make audit` bring tools of their own, which are not part of anything.
    installs = [line for line in text.splitlines() if re.search(r"pip install|--requirement", line)]
    ours = [line for line in installs if "requirements/" in line or "--editable" in line]
    assert ours
    text_of_all = " ".join(ours)
    assert "constraint constraints.txt" not in text
    assert "--require-hashes" in text
    assert "--no-deps" in text_of_all


def sbom(path: Path) -> dict[str, Any]:
    subprocess.run(
        [sys.executable, ROOT / "requirements/sbom.py", path], check=True, cwd=path.parent
    )
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def test_the_sbom_lists_all_that_muster_runs_on_and_is_always_the_same(tmp_path: Path) -> None:
    document = sbom(tmp_path / "one.json")
    sbom(tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["metadata"]["component"]["name"] == "muster"
    names = {one["name"]: one["version"] for one in document["components"]}
    assert wanted("embedded") <= names.keys()
    assert not {"pytest", "mypy", "ruff"} & names.keys()
    versions = {(package, version) for (package, _), version in pins("dev").items()}
    assert names.items() <= versions
    refs = {one["bom-ref"] for one in document["components"]}
    refs.add(document["metadata"]["component"]["bom-ref"])
    assert {one["ref"] for one in document["dependencies"]} == refs
    assert all(set(one["dependsOn"]) <= refs for one in document["dependencies"])
    assert all(
        one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}" for one in document["components"]
    )
