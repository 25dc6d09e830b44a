"""The secrets that sign deliveries: shown, and replaced while the old one still signs."""

from typing import Annotated

import typer

from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.context import CommandContext, err, print_json
from cli.shell.options import option
from cli.shell.parsing import parse_seconds

OWN_SECRET_PATH = "/api/webhook-secret"  # noqa: S105  a path
OverlapOption = Annotated[
    str | None,
    typer.Option(
        help="How long the old secret signs beside the new one; 24h if not given, 0 for not at all."
    ),
]


async def own_secret(
    shell: CommandContext,
    rotate: bool = option("Replace the secret first.", "--rotate", default=False),
    overlap: OverlapOption = None,
) -> None:
    """Print the secret that signs posted jobs; with --rotate, replace it first."""
    if rotate:
        found = await shell.call("post", f"{OWN_SECRET_PATH}/rotate", body=rotation_body(overlap))
    else:
        found = await shell.call("get", OWN_SECRET_PATH)
    print_secrets(found, shell)


def rotation_body(overlap: str | None) -> dict[str, int]:
    return {} if overlap is None else {"overlapSeconds": parse_seconds(overlap)}


def print_secrets(found: Document, shell: CommandContext) -> None:
    """Print only the newest to standard output, so that a script can catch it."""
    if shell.as_json:
        print_json(found)
        return
    print(found["secret"], flush=True)
    for one in found["secrets"][1:]:
        line = f"until {fmt.moment(one['expiresAt'])} also {one['secret']}"
        err.print(line, style="dim", markup=False, soft_wrap=True)
