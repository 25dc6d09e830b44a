"""Modules that are loaded when first used."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.ray.lazy_imports import defer_imports

NAMES = ("deferred_package", "deferred_package.part")


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / NAMES[0]
    folder.mkdir()
    (folder / "__init__.py").write_text("LOADED = 1\n")
    (folder / "part.py").write_text("PART = 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in NAMES:
        sys.modules.pop(name, None)


def is_loaded() -> bool:
    return "LOADED" in vars(sys.modules[NAMES[0]])


def test_an_import_alone_loads_nothing() -> None:
    defer_imports(NAMES[:1])
    import deferred_package  # type: ignore[import-not-found]

    assert not is_loaded()
    assert deferred_package.LOADED == 1
    assert is_loaded()
    assert deferred_package.LOADED == 1  # by those who imported it before, too


def test_a_submodule_is_found() -> None:
    defer_imports(NAMES[:1])
    from deferred_package.part import PART  # type: ignore[import-not-found]

    assert PART == 2
    assert is_loaded()


def test_what_is_loaded_or_missing_is_left_alone() -> None:
    defer_imports(("pytest", "there_is_no_such_module"))
    assert sys.modules["pytest"] is pytest
    assert "there_is_no_such_module" not in sys.modules
