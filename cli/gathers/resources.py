"""`muster resources`: the services that gathers ask."""

from dataclasses import dataclass
from typing import Any

from cli.shell import formats as fmt
from cli.shell.context import CommandContext, subcommand
from cli.shell.options import argument, option, request_fields
from cli.shell.output import columns
from cli.shell.parsing import CredentialOptions, parse_duration
from cli.shell.resource import ApiResource
from core.gathers.gather import ReplyBy

PATH = "/api/resources"


def _seconds(milliseconds: Any) -> str:
    return "" if milliseconds is None else fmt.length(milliseconds / 1000)


def _milliseconds(text: str) -> int:
    return round(parse_duration(text).total_seconds() * 1000)


ANSWERS = (
    ("answers", "reply", lambda reply: "directly" if reply == "direct" else "by callback"),
    ("credentials", "auth", fmt.auth_type),
    ("at once", "concurrency", fmt.number),
    ("per minute", "ratePerMinute", fmt.number),
)
resources = ApiResource(
    "resource",
    "resources",
    PATH,
    argument=argument("The resource's name.", metavar="NAME"),
    example="laboratory",
    listing=columns("name", "url", *ANSWERS),
    details=columns(
        ("resource", "name"),
        ("url", lambda one: f"{one.get('method', 'POST')} {one.get('url')}"),
        *ANSWERS,
        ("headers", "headers", fmt.header_lines),
        ("connect timeout", "connectTimeoutMs", _seconds),
        ("read timeout", "readTimeoutMs", _seconds),
        *fmt.TIMES,
    ),
)
app = resources.app
resource_path = resources.path_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOptions(CredentialOptions):
    """How a resource is called; options that are not given have Muster's default."""

    method: str | None = option("HTTP method; POST if not given.")
    reply: ReplyBy | None = option("Whether the resource calls back later or answers directly.")
    connect_timeout: str | None = option(
        "How long connecting may take, as in 5s.", api="connectTimeoutMs", convert=_milliseconds
    )
    read_timeout: str | None = option(
        "How long the answer may take, as in 30s.", api="readTimeoutMs", convert=_milliseconds
    )
    rate: int | None = option("Calls per minute.", api="ratePerMinute", min=1)
    concurrency: int | None = option("Calls at the same time.", min=1)


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
    options: ResourceOptions,
    shell: CommandContext,
    name: str = resources.argument,
    target: str = argument("The address to call.", metavar="URL"),
) -> None:
    """Register a resource, or replace all settings of one that exists."""
    body = {"url": target, **request_fields(options)}
    stored = await resources.call(shell, "put", name, body=body)
    shell.print(stored, f"Resource {name} is registered.")


resources.add_remove("rm", "Remove a resource: gathers cannot ask it any more.", "name", "removed")
