"""Many resources changed by bounded requests, with a progress bar."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from cli.shell.client import Client
from cli.shell.context import err

MAX_IDS = 500
BatchOption = Annotated[int, typer.Option(min=1, max=500, help="Items in one request.")]
UpdateProgress = Callable[[int, int], None]


def requests_by_ids(ids: Iterable[Any]) -> list[dict[str, Any]]:
    """Divide ids into requests of a size that Muster accepts."""
    unique = list(dict.fromkeys(ids))
    return [{"ids": unique[at : at + MAX_IDS]} for at in range(0, len(unique), MAX_IDS)]


async def change_all(
    client: Client,
    path: str,
    requests: Sequence[dict[str, Any]],
    count_tried: Callable[[dict[str, Any]], int],
    *,
    total: int,
    shown: bool,
) -> dict[str, Any]:
    """Repeat each request with the answer's cursor until nothing remains; add up the answers."""
    summary: dict[str, Any] = {}
    with progress("changing", total or None, shown=shown) as show:
        for request in requests:
            cursor: dict[str, str] | None = {}
            while cursor is not None:
                reply = await client.post(path, request | cursor)
                next_cursor, remaining = reply.pop("nextCursor"), reply.pop("remaining")
                _add(summary, reply)
                tried = count_tried(summary)
                show(tried, max(total, tried + remaining))
                cursor = None if next_cursor is None else {"cursor": next_cursor}
    return summary


def _add(summary: dict[str, Any], reply: dict[str, Any]) -> None:
    """Add counts, join lists, and add counts by name."""
    for name, value in reply.items():
        if isinstance(value, dict):
            summary[name] = Counter(value) + summary.get(name, Counter())
        else:
            summary[name] = summary.get(name, type(value)()) + value


@contextmanager
def progress(label: str, total: int | None, *, shown: bool) -> Iterator[UpdateProgress]:
    """Show a bar on a terminal; the yielded function is told how much is done, of how much."""
    if not shown or not err.is_terminal:
        yield lambda done, of: None
        return
    from rich import progress as bars  # noqa: PLC0415  takes a while, and is seldom needed

    parts = (bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeRemainingColumn())
    with bars.Progress(bars.TextColumn(label), *parts, console=err, transient=True) as bar:
        task = bar.add_task(label, total=total)

        def show(done: int, of: int) -> None:
            bar.update(task, completed=done, total=of)

        yield show
