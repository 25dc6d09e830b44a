"""What is true of the source tree as a whole."""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = (
    "core", "storage", "handlers", "telemetry", "settings", "services",
    "actors", "serve_app", "host", "cli", "tools",
)  # fmt: skip
MODULES = [
    path
    for room in ROOMS
    for path in sorted((ROOT / room).rglob("*.py"))
    if not path.stem.endswith("_pb2")  # generated
]
MAX_MODULES_IN_A_FOLDER = 20
MAX_LINES_OF_A_NOUN = 450
MAX_LINES = 400


def test_no_public_class_name_is_defined_twice() -> None:
    places = defaultdict(list)
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_folder_has_too_many_modules() -> None:
    counts = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    full = {str(folder): count for folder, count in counts.items()}
    assert {folder: n for folder, n in full.items() if n > MAX_MODULES_IN_A_FOLDER} == {}


@pytest.mark.parametrize("room", [*ROOMS, "bench"])
def test_no_module_is_too_long(room: str) -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in (ROOT / room).rglob("*.py")
    }
    assert lengths
    assert {name: n for name, n in lengths.items() if n > MAX_LINES} == {}


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    kept = word.endswith(("ss", "us", "dns")) or word == "alias"
    return word if kept else re.sub("(?<=ss)es$|(?<=as)es$|s$", "", word)


def test_every_module_is_named_by_words_of_the_glossary_or_of_the_field() -> None:
    glossary = (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8")
    plain = (ROOT / "tests/unit/plain_words.txt").read_text(encoding="utf-8")
    terms = " ".join(re.findall(r"^\| ([^|`]+) \|", glossary, re.MULTILINE))
    known = {_singular(word) for word in re.findall(r"[a-z]+", terms + re.sub("#.*", "", plain))}
    assert len(known) > 200
    unknown = {
        str(path.relative_to(ROOT)): words
        for path in MODULES
        if path.name != "__init__.py"
        and (words := [word for word in path.stem.split("_") if _singular(word) not in known])
    }
    assert unknown == {}, "name it by a word of the field, or explain the word in the glossary"


def test_a_noun_costs_six_files_and_few_lines() -> None:
    """The dispatch pool is the example of CONTRIBUTING.md: a new noun costs as much."""
    noun = (
        "core/dispatch/pool.py", "storage/dispatch/pools.py", "storage/dispatch/pools.sql",
        "serve_app/dispatch/pools.py", "serve_app/dispatch/pool_models.py",
        "cli/dispatch/pools.py",
    )  # fmt: skip
    lines = sum(len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in noun)
    assert lines <= MAX_LINES_OF_A_NOUN
