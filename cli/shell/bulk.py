"""Many resources changed by bounded requests, with a progress bar."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Annotated, Any

import typer

from cli.shell.client import Client
from cli.shell.progress import progress

MAX_IDS = 500
BatchOption = Annotated[int, typer.Option(min=1, max=500, help="Items in one request.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def requests_by_ids(ids: Iterable[Any]) -> list[dict[str, Any]]:
    """Divide ids into requests of a size that Muster accepts."""
    unique = list(dict.fromkeys(ids))
    return [{"ids": unique[at : at + MAX_IDS]} for at in range(0, len(unique), MAX_IDS)]


async def post_until_done(
    client: Client, path: str, requests: Sequence[dict[str, Any]]
) -> AsyncIterator[dict[str, Any]]:
    """Repeat each request with the answer's cursor until nothing remains of it."""
    for request in requests:
        cursor: str | None = None
        while True:
            reply = await client.post(path, {**request, **({"cursor": cursor} if cursor else {})})
            yield reply
            cursor = reply["nextCursor"]
            if cursor is None:
                break


async def change_all(
    client: Client,
    path: str,
    requests: Sequence[dict[str, Any]],
    summary: Any,
    *,
    total: int,
    shown: bool,
) -> None:
    """Make the requests and add each answer to the summary, which knows `tried` and `remaining`."""
    with progress("changing", total or None, shown=shown) as show:
        async for reply in post_until_done(client, path, requests):
            summary.add(reply)
            show(summary.tried, max(total, summary.tried + summary.remaining))
