"""`muster resources`: the services that gathers ask."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.text import Text

from cli.shell.context import CommandContext, subcommand
from cli.shell.durations import parse_duration
from cli.shell.options import ApiField, request_fields
from cli.shell.output import Document, columns, header_lines, length, moment, number
from cli.shell.parsing import CredentialOptions
from cli.shell.resource import ApiResource
from core.gathers.gather import ReplyBy

PATH = "/api/resources"
ResourceArgument = Annotated[str, typer.Argument(help="The resource's name.", metavar="NAME")]


def _answers(reply: Any) -> str:
    return "directly" if reply == "direct" else "by callback"


def _call(resource: Document) -> Text:
    return Text(f"{resource.get('method', 'POST')} {resource.get('url')}")


def _seconds(milliseconds: Any) -> str:
    return "" if milliseconds is None else length(milliseconds / 1000)


def _milliseconds(text: str) -> int:
    return round(parse_duration(text).total_seconds() * 1000)


ANSWERS = (
    ("answers", "reply", _answers),
    ("credentials", "auth", lambda auth: str((auth or {}).get("type", ""))),
    ("at once", "concurrency", number),
    ("per minute", "ratePerMinute", number),
)
resources = ApiResource(
    "resource",
    "resources",
    PATH,
    argument=ResourceArgument,
    example="laboratory",
    listing=columns("name", "url", *ANSWERS),
    details=columns(
        ("resource", "name"),
        ("url", _call),
        *ANSWERS,
        ("headers", "headers", header_lines),
        ("connect timeout", "connectTimeoutMs", _seconds),
        ("read timeout", "readTimeoutMs", _seconds),
        ("created", "createdAt", moment),
        ("changed", "updatedAt", moment),
    ),
)
app = resources.app
resource_path = resources.path_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOptions(CredentialOptions):
    """How a resource is called; options that are not given have Muster's default."""

    method: Annotated[str | None, typer.Option(help="HTTP method; POST if not given.")] = None
    reply: Annotated[
        ReplyBy | None,
        typer.Option(help="Whether the resource calls back later or answers directly."),
    ] = None
    connect_timeout: Annotated[
        str | None,
        typer.Option(help="How long connecting may take, as in 5s."),
        ApiField("connectTimeoutMs", _milliseconds),
    ] = None
    read_timeout: Annotated[
        str | None,
        typer.Option(help="How long the answer may take, as in 30s."),
        ApiField("readTimeoutMs", _milliseconds),
    ] = None
    rate: Annotated[
        int | None, typer.Option(min=1, help="Calls per minute."), ApiField("ratePerMinute")
    ] = None
    concurrency: Annotated[int | None, typer.Option(min=1, help="Calls at the same time.")] = None


resources.add_list(
    "List the resources by name, without their secrets, page by page.",
    "muster resources list --json",
)
resources.add_show("Show one resource: its address, how it is called and how it answers.")


@subcommand(
    app,
    "put",
    "muster resources put laboratory https://lab.example.com/results --bearer @token",
    "muster resources put pharmacy https://rx.example.com/ask --reply direct --rate 600",
)
async def put(
    name: ResourceArgument,
    target: Annotated[str, typer.Argument(help="The address to call.", metavar="URL")],
    options: ResourceOptions,
    shell: CommandContext,
) -> None:
    """Register a resource, or replace all settings of one that exists."""
    body = {"url": target, **request_fields(options)}
    async with shell.connect() as client:
        stored = await client.put(resources.path_of(name), body)
    shell.print(stored, f"Resource {name} is registered.")


resources.add_remove("rm", "Remove a resource: gathers cannot ask it any more.", "name", "removed")
