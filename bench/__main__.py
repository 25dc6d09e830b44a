"""`python -m bench NAME [--quick] [--json]`: one scenario; `all` runs every one."""

import argparse
import asyncio
import json
import sys
from dataclasses import asdict
from importlib import import_module

from bench.harness import err, table_of
from bench.stage import stage

SCENARIOS = ("aggregate", "memory", "timers")


def main() -> int:
    """Run what was asked for; the last line of output is JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", choices=[*SCENARIOS, "all"])
    parser.add_argument("--quick", action="store_true", help="one pair, small sizes: a smoke test")
    parser.add_argument("--json", action="store_true", help="print only the JSON line")
    given = parser.parse_args()
    for name in SCENARIOS if given.name == "all" else (given.name,):
        err.print(f"[bold]{name}[/]")
        with stage(quick=given.quick) as built:
            # After the stage: Ray's flags must be set before anything imports Ray.
            result = asyncio.run(import_module(f"bench.{name}").run(built))
        if not given.json:
            err.print(table_of(result))
        document = asdict(result)
        document.pop("goals")
        print(json.dumps(document), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
