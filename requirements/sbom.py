"""Write what Muster runs on as an SBOM: CycloneDX 1.6, from the metadata of what is installed.

The same packages give the same bytes: no time, no random serial number.
"""

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = "muster"
EXTRAS = frozenset({"embedded"})
"""What `muster up` needs is part of it; tools of development are not."""


def make_sbom() -> dict[str, Any]:
    """Describe Muster and everything it needs, directly or not."""
    found = _closure()
    root = found.pop(ROOT)
    graph = {ROOT: root, **found}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component(root[0], "application")},
        "components": [_component(one, "library") for one, _ in _sorted(found)],
        "dependencies": [
            {"ref": _purl(one), "dependsOn": sorted(_purl(graph[name][0]) for name in needs)}
            for one, needs in _sorted(graph)
        ],
    }


def _closure() -> dict[str, tuple[Distribution, set[str]]]:
    """Every distribution by its name, with the names of those that it needs."""
    found: dict[str, tuple[Distribution, set[str]]] = {}
    extras: dict[str, frozenset[str]] = {}
    left = [(ROOT, EXTRAS)]
    while left:
        name, wanted = left.pop()
        known = extras.get(name)
        if known is not None and wanted <= known:
            continue
        extras[name] = wanted | (known or frozenset())
        one, needs = found.setdefault(name, (distribution(name), set()))
        for requirement in _requirements(one, extras[name]):
            needed = _normal(requirement.name)
            if needed == name:  # one extra of ours names another
                left.append((name, extras[name] | frozenset(requirement.extras)))
            else:
                needs.add(needed)
                left.append((needed, frozenset(requirement.extras)))
    return found


def _requirements(one: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    """Those that hold on this machine, with these extras."""
    for text in one.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def _component(one: Distribution, kind: str) -> dict[str, Any]:
    told: dict[str, Any] = {
        "type": kind,
        "bom-ref": _purl(one),
        "name": _normal(one.metadata["Name"]),
        "version": one.version,
        "purl": _purl(one),
    }
    licence = one.metadata.get("License-Expression")
    if licence:
        told["licenses"] = [{"expression": licence}]
    elif names := _licence_names(one):
        told["licenses"] = [{"license": {"name": name}} for name in names]
    return told


def _licence_names(one: Distribution) -> list[str]:
    classifiers = one.metadata.get_all("Classifier") or []
    prefix = "License :: "
    named = {text.split(" :: ")[-1] for text in classifiers if text.startswith(prefix)}
    said = (one.metadata.get("License") or "").strip()
    if not named and said and "\n" not in said:
        named = {said}
    return sorted(named - {"OSI Approved"})


def _sorted(
    found: dict[str, tuple[Distribution, set[str]]],
) -> list[tuple[Distribution, set[str]]]:
    return [found[name] for name in sorted(found)]


def _purl(one: Distribution) -> str:
    return f"pkg:pypi/{_normal(one.metadata['Name'])}@{one.version}"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(make_sbom(), indent=2, sort_keys=True) + "\n", encoding="utf-8")
