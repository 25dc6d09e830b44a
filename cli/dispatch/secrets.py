"""What signs deliveries: shown, and replaced without a delivery that fails to verify."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.dispatch.parsing import parse_seconds
from cli.shell.client import Client
from cli.shell.context import CommandContext, command, err, print_json
from cli.waits.views import local_time

OWN_SECRET_PATH = "/api/webhook-secret"  # noqa: S105  a path
OverlapOption = Annotated[
    str | None,
    typer.Option(
        help="How long the old secret signs beside the new one; 24h if not given, 0 for not at all."
    ),
]


@command
async def own_secret(
    shell: CommandContext,
    rotate: Annotated[bool, typer.Option("--rotate", help="Replace it.")] = False,
    overlap: OverlapOption = None,
) -> None:
    """Print what signs jobs that are posted; with --rotate, replace it first."""
    async with shell.connect() as client:
        if rotate:
            found = await rotate_secret(client, OWN_SECRET_PATH, overlap)
        else:
            found = await client.get(OWN_SECRET_PATH)
    print_secrets(found, shell)


async def rotate_secret(client: Client, path: str, overlap: str | None) -> Mapping[str, Any]:
    """Replace what signs; all that sign now."""
    body: dict[str, Any] = {}
    if overlap is not None:
        body["overlapSeconds"] = 0 if overlap.strip() in {"0", "0s"} else parse_seconds(overlap)
    found: Mapping[str, Any] = await client.post(f"{path}/rotate", body)
    return found


def print_secrets(found: Mapping[str, Any], shell: CommandContext) -> None:
    """The newest alone goes to standard output, so that a script can catch it."""
    if shell.as_json:
        print_json(found)
        return
    print(found["secret"], flush=True)
    for one in found["secrets"][1:]:
        until = f"until {local_time(one['expiresAt'])} also {one['secret']}"
        err.print(until, style="dim", markup=False, soft_wrap=True)
