"""Every benchmark can be found: by the command, in the documentation, and where its result goes."""

import subprocess
import sys
from pathlib import Path

from bench.__main__ import SCENARIOS
from bench.report import BEGIN, END

ROOT = Path(__file__).parents[3]


def test_the_command_lists_every_scenario() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert all(name in done.stdout for name in SCENARIOS)


def test_every_scenario_is_a_module_of_its_own() -> None:
    assert all((ROOT / "bench" / f"{name}.py").is_file() for name in SCENARIOS)


def test_every_scenario_is_explained_to_readers() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    assert all(f"| `{name}` |" in page for name in SCENARIOS)


def test_the_page_has_a_place_for_results() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    assert 0 < page.index(BEGIN) < page.index(END)
