"""What is typed, as values; and that no command waits for pydantic."""

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import typer

from cli.shell.values import read_value
from tests.support.command_line import FakeMuster


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@pytest.mark.parametrize(
    ("given", "kind", "details", "expected"),
    [
        ("a b", str, {}, "a b"),
        ("7", int, {"min": 1, "max": 7}, 7),
        (50, int, {"min": 1}, 50),
        ("0.5", float, {}, 0.5),
        ("a/b", Path, {}, Path("a/b")),
        ("red", Colour, {}, Colour.RED),
        ("BLUE", Colour, {"case_sensitive": False}, Colour.BLUE),
    ],
)
def test_values(given: Any, kind: type[Any], details: dict[str, Any], expected: object) -> None:
    assert read_value(given, kind, typer.Option(**details)) == expected


@pytest.mark.parametrize(
    ("given", "kind", "details", "sentence"),
    [
        ("x", int, {}, "'x' is not a whole number."),
        ("1.5", int, {}, "'1.5' is not a whole number."),
        ("x", float, {}, "'x' is not a number."),
        ("nan", float, {"min": 0.2, "max": 60}, "at least 0.2 and at most 60"),
        ("0", int, {"min": 1}, "0 is out of range: at least 1."),
        ("RED", Colour, {}, "'RED' is not one of red, blue."),
    ],
)
def test_what_is_no_such_value(
    given: str, kind: type[Any], details: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence.replace(".", r"\.")):
        read_value(given, kind, typer.Option(**details))


def test_a_wrong_value_ends_a_command(muster: FakeMuster) -> None:
    done = muster.run("jobs", "list", "--status", "lost", "--limit", "5")
    assert done.exit_code == 2
    assert "'lost' is not one of pending, queued" in " ".join(done.output.replace("│", " ").split())


def test_a_command_starts_quickly_because_pydantic_is_not_imported() -> None:
    code = """
import sys
from cli.main import main
sys.argv = ["muster", "jobs", "list", "--status", "error", "--limit", "5", "--data-dir", "/x",
            "--url", "http://127.0.0.1:1"]
try:
    main()
except SystemExit:
    print({"pydantic", "pygments", "ray"} & set(sys.modules))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
    assert "Muster is not running" in run.stderr
