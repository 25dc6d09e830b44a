"""`muster resources`: those who can be asked."""

from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

import typer

from cli.gathers.resource_views import resource_view, resources_view
from cli.shell.context import CommandContext, command, out, print_json
from cli.shell.credentials import parse_auth, parse_headers
from cli.shell.durations import parse_duration
from cli.shell.errors import CommandError
from cli.shell.lazy import SETTINGS, example
from cli.shell.problems import ProblemResponseError
from core.gathers.gather import ReplyBy

PATH = "/api/resources"
ResourceArgument = Annotated[str, typer.Argument(help="The resource's name.", metavar="NAME")]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="Register, list, show and remove those who can be asked.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOptions:
    """How a resource is called; what is not given is Muster's usual."""

    method: Annotated[str | None, typer.Option(help="HTTP method; POST if not given.")] = None
    header: Annotated[
        list[str] | None, typer.Option(help="A header as NAME=VALUE; once for each.")
    ] = None
    bearer: Annotated[
        str | None,
        typer.Option(help="Token to show there: @file or - keeps it out of the process list."),
    ] = None
    basic: Annotated[
        str | None, typer.Option(help="USER:PASSWORD to show there, @file or - likewise.")
    ] = None
    reply: Annotated[
        ReplyBy | None, typer.Option(help="It calls back later, or answers directly.")
    ] = None
    connect_timeout: Annotated[str | None, typer.Option(help="As in 5s.")] = None
    read_timeout: Annotated[str | None, typer.Option(help="As in 30s.")] = None
    rate: Annotated[int | None, typer.Option(min=1, help="At most so many calls a minute.")] = None
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="At most so many calls at the same time.")
    ] = None

    def settings(self) -> dict[str, Any]:
        """As the API names them."""
        given = {
            "method": self.method,
            "headers": parse_headers(self.header) if self.header else None,
            "auth": parse_auth(self.bearer, self.basic),
            "reply": self.reply.value if self.reply else None,
            "connectTimeoutMs": _milliseconds(self.connect_timeout),
            "readTimeoutMs": _milliseconds(self.read_timeout),
            "ratePerMinute": self.rate,
            "concurrency": self.concurrency,
        }
        return {name: value for name, value in given.items() if value is not None}


@app.command("list", epilog=example("muster resources list --json"))
@command
async def list_(
    shell: CommandContext,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many on one page.")] = 100,
    cursor: Annotated[str | None, typer.Option(help="Go on where a page ended.")] = None,
) -> None:
    """List the resources by name, without their secrets, page by page."""
    async with shell.connect() as client:
        page = await client.get(PATH, {"limit": limit, "cursor": cursor})
    if shell.as_json:
        print_json(page)
        return
    out.print(resources_view(page["items"]))
    if page.get("nextCursor"):
        out.print(f"[dim]More: --cursor {page['nextCursor']}[/]", soft_wrap=True)


@app.command("show", epilog=example("muster resources show laboratory"))
@command
async def show(name: ResourceArgument, shell: CommandContext) -> None:
    """Show one resource: where it is, how it is called and how it answers."""
    async with shell.connect() as client:
        found = await client.get(resource_path(name))
    print_json(found) if shell.as_json else out.print(resource_view(found))


@app.command(
    "put",
    epilog=example(
        "muster resources put laboratory https://lab.example.com/results --bearer @token",
        "muster resources put pharmacy https://rx.example.com/ask --reply direct --rate 600",
    ),
)
@command
async def put(
    name: ResourceArgument,
    target: Annotated[str, typer.Argument(help="Where it is called.", metavar="URL")],
    options: ResourceOptions,
    shell: CommandContext,
) -> None:
    """Register a resource, or change all of one that is there."""
    body = {"url": target, **options.settings()}
    async with shell.connect() as client:
        kept = await client.put(resource_path(name), body)
    if shell.as_json:
        print_json(kept)
    else:
        out.print(f"Resource {name} is registered.", markup=False)


@app.command("rm", epilog=example("muster resources rm laboratory"))
@command
async def remove(name: ResourceArgument, shell: CommandContext) -> None:
    """Remove a resource: nobody can ask it any more."""
    async with shell.connect() as client:
        try:
            await client.delete(resource_path(name))
        except ProblemResponseError as problem:
            if problem.status != 404:
                raise
            told = f"There is no resource {name}: see `muster resources list`."
            raise CommandError(told) from problem
    if shell.as_json:
        print_json({"name": name, "removed": True})
    else:
        out.print(f"Resource {name} is removed.", markup=False)


def resource_path(name: str) -> str:
    """The path of one resource."""
    return f"{PATH}/{quote(name, safe='')}"


def _milliseconds(text: str | None) -> int | None:
    return None if text is None else round(parse_duration(text).total_seconds() * 1000)
