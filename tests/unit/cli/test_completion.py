"""What a shell offers when somebody presses tab; commands are imported for it when needed."""

import os
import subprocess
import sys

import pytest


def offered(line: str) -> list[str]:
    words = line.split()
    place = len(words) if line.endswith(" ") else len(words) - 1
    env = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(place),
        "_MUSTER_COMPLETE": "complete_bash",
    }
    done = subprocess.run(
        [sys.executable, "-c", "from cli.main import main; main()"],
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("muster ev", ["events", "event-types"]),
        ("muster demo ", ["waits", "gather", "dispatch", "records"]),
        ("muster groups ", ["list", "show", "park", "resume", "skip"]),
        ("muster jobs list --kind ", ["EVENT", "TASK"]),
        ("muster pools stats --w", ["--watch"]),
    ],
)
def test_commands_options_and_choices_are_offered(line: str, expected: list[str]) -> None:
    assert offered(line) == expected
