"""Replay a seed, or try a range: `python -m tests.simulation 17` or `… 0 1000000`."""

import sys

import structlog
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from tests.simulation.clockwork import simulate
from tests.simulation.many import LawBrokenError, try_seeds
from tests.simulation.record_scenario import play_records
from tests.simulation.scenario import play

err = Console(stderr=True)


def replay(seed: int) -> int:
    """Play the stories of a seed in this process, where a debugger can follow them."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    stories = [simulate(play(seed)).fingerprint(), simulate(play_records(seed)).fingerprint()]
    told = " ".join(story[:16] for story in stories)
    sys.stdout.write(f"seed {seed}: every law held; stories {told}\n")
    return 0


def explore(first: int, last: int) -> int:
    """Play many on all cores; 1 if one broke a law."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err) as bar:
        task = bar.add_task("seeds", total=last - first)
        try:
            tried = try_seeds(first, last, lambda so_far: bar.update(task, completed=so_far.seeds))
        except LawBrokenError as broken:
            err.print(str(broken), style="red", markup=False)
            return 1
    sys.stdout.write(
        f"seeds {first}..{last - 1}: every law held; "
        f"{tried.refused_writes} stale writes refused, {tried.log_lines} log lines, "
        f"{tried.timed_out} deadlines met trouble, {tried.published} endings told; "
        f"{tried.record_changes} record changes, {tried.lost_transactions} transactions lost, "
        f"{tried.shared_transactions} shared by several messages\n"
    )
    return 0


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    sys.exit(replay(given[0]) if len(given) == 1 else explore(*given))
