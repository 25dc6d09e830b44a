"""`muster kafka dead-letters`: records that could not be handled."""

from dataclasses import dataclass
from typing import Annotated

import typer

from cli.kafka.views import dead_letter_view, dead_letters_view
from cli.shell.context import CommandContext, command, out, print_json
from cli.shell.lazy import SETTINGS, example

PATH = "/api/dead-letters"
DeadLetterIdArgument = Annotated[
    int, typer.Argument(help="Id of the dead letter.", metavar="ID", min=1)
]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="List, show and delete records that could not be handled.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterListOptions:
    """Which dead letters a listing shows."""

    topic: Annotated[str | None, typer.Option(help="Only those of this topic.")] = None
    error: Annotated[str | None, typer.Option(help="Only those with this in their error.")] = None
    redriven: Annotated[
        bool, typer.Option("--redriven", help="Those handled after all, not the open ones.")
    ] = False
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many on one page.")] = 50
    cursor: Annotated[str | None, typer.Option(help="Go on where a page ended.")] = None

    def params(self) -> dict[str, str | int | float | None]:
        """The listing's query."""
        return {
            "topic": self.topic,
            "error": self.error,
            "redriven": "true" if self.redriven else None,
            "limit": self.limit,
            "cursor": self.cursor,
        }


@app.command("list", epilog=example("muster kafka dead-letters list --error 'not the JSON'"))
@command
async def list_(options: DeadLetterListOptions, shell: CommandContext) -> None:
    """List dead letters, newest first, page by page."""
    async with shell.connect() as client:
        page = await client.get(PATH, options.params())
    if shell.as_json:
        print_json(page)
        return
    out.print(dead_letters_view(page["items"]))
    if page.get("nextCursor"):
        out.print(f"[dim]More: --cursor {page['nextCursor']}[/]", soft_wrap=True)


@app.command("show", epilog=example("muster kafka dead-letters show 7"))
@command
async def show(letter_id: DeadLetterIdArgument, shell: CommandContext) -> None:
    """Show one dead letter: its error, its key, its headers and its data."""
    async with shell.connect() as client:
        dead_letter = await client.get(f"{PATH}/{letter_id}")
    print_json(dead_letter) if shell.as_json else out.print(dead_letter_view(dead_letter))


@app.command("delete", epilog=example("muster kafka dead-letters delete 7"))
@command
async def delete(letter_id: DeadLetterIdArgument, shell: CommandContext) -> None:
    """Forget one dead letter: nobody will handle it."""
    async with shell.connect() as client:
        await client.delete(f"{PATH}/{letter_id}")
    if shell.as_json:
        print_json({"letterId": letter_id, "deleted": True})
    else:
        out.print(f"Dead letter {letter_id} is forgotten.")
