"""`python -m bench NAME [--quick] [--json]`: one scenario; `all` runs every one."""

import argparse
import asyncio
import json
import subprocess
import sys
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec

from bench import machine, report
from bench.harness import Result, err, table_of
from bench.noise import Noise
from bench.stage import stage

SCENARIOS = (
    "aggregate",
    "callbacks",
    "kafka",
    "gather",
    "sse",
    "dispatch",
    "events",
    "rules",
    "datapath",
    "records",
    "scale",
    "memory",
    "timers",
    "neighbour",
    "soak",
)
SOAK_MINUTES, QUICK_SOAK_MINUTES = 30.0, 0.5


def main() -> int:
    """Run what was asked for; the last line of output is JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, epilog=f"Scenarios: {', '.join(SCENARIOS)}."
    )
    parser.add_argument("name", choices=[*SCENARIOS, "all"])
    parser.add_argument("--quick", action="store_true", help="one pair, small sizes: a smoke test")
    parser.add_argument(
        "--minutes", type=float, help=f"how long soak lasts; {SOAK_MINUTES:g} if not given"
    )
    parser.add_argument("--json", action="store_true", help="print only the JSON line")
    parser.add_argument(
        "--record",
        action="store_true",
        help="keep the result in docs/performance.json and show it in docs/performance.md; "
        "`all` does so unless it is --quick",
    )
    given = parser.parse_args()
    missing = [name for name in ("dbos", "matplotlib") if find_spec(name) is None]
    if missing:
        parser.error(f"{' and '.join(missing)} not installed: run `make .venv/.bench` first")
    return _run_all(given) if given.name == "all" else _run_one(given)


def _run_one(given: argparse.Namespace) -> int:
    minutes = given.minutes or (QUICK_SOAK_MINUTES if given.quick else SOAK_MINUTES)
    err.print(f"[bold]{given.name}[/]")
    with stage(quick=given.quick, minutes=minutes) as built:
        with Noise(built) as noise:
            # After the stage: Ray's flags must be set before anything imports Ray.
            result = asyncio.run(import_module(f"bench.{given.name}").run(built))
        facts = asyncio.run(machine.describe(built))
    if not given.json:
        err.print(table_of(result))
    err.print(f"  taken by others meanwhile: {noise.shares()}")
    if given.record:
        report.record(_entry(given, result) | {"noise": noise.shares(), "machine": facts})
        report.publish()
    print(json.dumps(_document(result)), flush=True)
    return 0


def _run_all(given: argparse.Namespace) -> int:
    """Each in a process of its own: Ray reads its flags once in a process's life."""
    flags = [f"--{name}" for name in ("quick", "json") if getattr(given, name)]
    flags += [f"--minutes={given.minutes}"] if given.minutes else []
    flags += ["--record"] if given.record or not given.quick else []
    failed = [
        name
        for name in SCENARIOS
        if subprocess.run([sys.executable, "-m", "bench", name, *flags], check=False).returncode
    ]
    if failed:
        err.print(f"[bold red]failed:[/] {', '.join(failed)}")
    return 1 if failed else 0


def _document(result: Result) -> dict[str, object]:
    document = asdict(result)
    document.pop("goals")
    return document


def _entry(given: argparse.Namespace, result: Result) -> dict[str, object]:
    flags = " --quick" if given.quick else ""
    flags += f" --minutes {given.minutes:g}" if given.minutes else ""
    return asdict(result) | {
        "command": f"python -m bench {given.name}{flags}",
        "commit": machine.commit(),
        "date": machine.today(),
        "quick": given.quick,
    }


if __name__ == "__main__":
    sys.exit(main())
