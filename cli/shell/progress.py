"""A progress bar for work that takes a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cli.shell.context import err

UpdateProgress = Callable[[int, int], None]


@contextmanager
def progress(label: str, total: int | None, *, shown: bool) -> Iterator[UpdateProgress]:
    """Show a bar on a terminal; the yielded function is told how much is done, of how much."""
    bar = Progress(
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not shown or not err.is_terminal,
    )
    with bar:
        task = bar.add_task(label, total=total)

        def show(done: int, of: int) -> None:
            bar.update(task, completed=done, total=of)

        yield show
