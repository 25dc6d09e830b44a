"""`muster subscriptions`: who wants which events, and how they are brought there."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cli.dispatch.parsing import (
    CursorOption,
    LimitOption,
    explain_not_found,
    join_path,
    parse_seconds,
    require_code,
)
from cli.dispatch.secrets import OverlapOption, print_secrets, rotate_secret
from cli.dispatch.subscription_views import subscription_view, subscriptions_view
from cli.shell.client import Client
from cli.shell.context import CommandContext, command, err, out, print_json
from cli.shell.credentials import parse_auth, parse_headers
from cli.shell.errors import InputError
from cli.shell.lazy import SETTINGS, example
from cli.shell.tables import print_page
from core.dispatch.job import Mode
from core.dispatch.subscription import Signature, SubscriptionStatus, is_code

PATH = "/api/subscriptions"
ID_PREFIX = "sub_"
SubscriptionArgument = Annotated[
    str, typer.Argument(help="The subscription's code or id.", metavar="SUBSCRIPTION")
]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="Say who wants which events; pause, resume, and rotate what signs them.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionListOptions:
    """Which subscriptions a listing shows."""

    status: Annotated[
        SubscriptionStatus | None,
        typer.Option(help="Only those that stand so.", case_sensitive=False),
    ] = None
    event_type: Annotated[
        str | None, typer.Option("--type", help="Only those that take events of this type.")
    ] = None
    pool: Annotated[str | None, typer.Option(help="Only those of this pool.")] = None
    limit: LimitOption = 100
    cursor: CursorOption = None

    def params(self) -> dict[str, str | int | float | None]:
        """The listing's query."""
        return {
            "status": self.status.value if self.status else None,
            "eventType": self.event_type,
            "pool": self.pool,
            "limit": self.limit,
            "cursor": self.cursor,
        }


@app.command("list", epilog=example("muster subscriptions list --type shop:orders:order:created"))
@command
async def list_(options: SubscriptionListOptions, shell: CommandContext) -> None:
    """List subscriptions by code, page by page."""
    async with shell.connect() as client:
        page = await client.get(PATH, options.params())
    print_page(page, subscriptions_view, shell, "subscriptions")


@app.command("show", epilog=example("muster subscriptions show billing"))
@command
async def show(name: SubscriptionArgument, shell: CommandContext) -> None:
    """Show one subscription: what it takes, where that goes, and how it fares."""
    async with shell.connect() as client:
        with explain_not_found(_missing(name)):
            found = await client.get(_path(name))
    print_json(found) if shell.as_json else out.print(subscription_view(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionOptions:
    """What a subscription takes and how it is delivered; what is not given is Muster's usual."""

    event_type: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            "-t",
            help="A type it takes, * in place of any segment, @1.0 or @1.* behind it for a "
            "version; once for each.",
        ),
    ] = None
    filter_: Annotated[
        str | None,
        typer.Option("--filter", help="Only events for which this holds, as in 'data.total > 9'."),
    ] = None
    mode: Annotated[
        Mode | None,
        typer.Option(
            help="IMMEDIATE keeps no order; the others keep it within a message group, and say "
            "what the group does when a delivery fails.",
            case_sensitive=False,
        ),
    ] = None
    pool: Annotated[str | None, typer.Option(help="The pool that delivers.")] = None
    delay: Annotated[str | None, typer.Option(help="Wait so long before, as in 10s.")] = None
    max_age: Annotated[str | None, typer.Option(help="Not worth it after, as in 1d.")] = None
    timeout: Annotated[str | None, typer.Option(help="How long an attempt may take.")] = None
    retries: Annotated[int | None, typer.Option(min=1, help="Attempts in all.")] = None
    sequence: Annotated[int | None, typer.Option(min=0, help="Place within a group.")] = None
    envelope: Annotated[
        bool | None,
        typer.Option(
            "--envelope/--data-only", help="The data with ids and times around it, or alone."
        ),
    ] = None
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
    signature: Annotated[
        Signature | None, typer.Option(help="As Standard Webhooks has it, or one hash.")
    ] = None
    name: Annotated[str | None, typer.Option(help="How people call it.")] = None
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None

    def body(self) -> dict[str, Any]:
        """What was given, as the API names it."""
        given = {
            "name": self.name,
            "description": self.description,
            "eventTypes": [parse_binding(text) for text in self.event_type or ()] or None,
            "filter": self.filter_,
            "mode": self.mode.value if self.mode else None,
            "dispatchPoolId": self.pool,
            "delaySeconds": parse_seconds(self.delay),
            "maxAgeSeconds": parse_seconds(self.max_age),
            "timeoutSeconds": parse_seconds(self.timeout),
            "maxRetries": self.retries,
            "sequence": self.sequence,
            "dataOnly": None if self.envelope is None else not self.envelope,
            "headers": parse_headers(self.header) if self.header else None,
            "auth": parse_auth(self.bearer, self.basic),
            "signature": self.signature.value if self.signature else None,
        }
        return {name: value for name, value in given.items() if value is not None}


@app.command(
    "create",
    epilog=example(
        "muster subscriptions create billing https://billing.example.com/hook "
        "--type shop:orders:order:created",
        "muster subscriptions create audit https://audit.example.com/in --type 'shop:*:*:*' "
        "--mode BLOCK_ON_ERROR --pool slow-partner",
    ),
)
@command
async def create(
    code: Annotated[str, typer.Argument(help="What it is called, as in billing.", metavar="CODE")],
    target: Annotated[str, typer.Argument(help="Where events are delivered.", metavar="URL")],
    options: SubscriptionOptions,
    shell: CommandContext,
) -> None:
    """Subscribe an address to events, and print the secret that signs what comes there."""
    called = require_code(code, "subscription").replace("-", " ").capitalize()
    body = {"code": code, "name": called, "target": target, **options.body()}
    if not options.event_type:
        raise InputError("Say which events it takes: --type shop:orders:order:created.")
    async with shell.connect() as client:
        made = await client.post(PATH, body)
        secrets = await client.get(_path(code, "secret"))
    if shell.as_json:
        print_json({**made, **secrets})
        return
    # The secret alone goes to standard output, so that a script can catch it.
    err.print(f"Subscription {code} takes events. This signs them:", markup=False)
    print(secrets["secret"], flush=True)


@app.command(
    "change",
    epilog=example(
        "muster subscriptions change billing --target https://new.example.com/hook",
        "muster subscriptions change billing --mode NEXT_ON_ERROR --retries 8",
    ),
)
@command
async def change(
    subscription: SubscriptionArgument,
    options: SubscriptionOptions,
    shell: CommandContext,
    target: Annotated[
        str | None, typer.Option(help="Where events are delivered.", metavar="URL")
    ] = None,
) -> None:
    """Change what is given of a subscription; the rest stays, and so do its secrets."""
    body = options.body() | ({"target": target} if target else {})
    if not body:
        raise InputError("Say what is to change, as in --target URL.")
    async with shell.connect() as client:
        with explain_not_found(_missing(subscription)):
            changed = await client.patch(_path(subscription), body)
    print_json(changed) if shell.as_json else out.print(subscription_view(changed))


@app.command("pause", epilog=example("muster subscriptions pause billing"))
@command
async def pause(name: SubscriptionArgument, shell: CommandContext) -> None:
    """Take no more events; what is on its way goes on."""
    await _change(name, "pause", "is paused", shell)


@app.command("resume", epilog=example("muster subscriptions resume billing"))
@command
async def resume(name: SubscriptionArgument, shell: CommandContext) -> None:
    """Take events again, from now on, with all failures forgotten."""
    await _change(name, "resume", "takes events", shell)


@app.command("rm", epilog=example("muster subscriptions rm billing"))
@command
async def remove(name: SubscriptionArgument, shell: CommandContext) -> None:
    """Remove a subscription and its secrets; what is on its way to it fails."""
    async with shell.connect() as client:
        with explain_not_found(_missing(name)):
            await client.delete(_path(name))
    if shell.as_json:
        print_json({"subscription": name, "removed": True})
    else:
        out.print(f"Subscription {name} is removed.", markup=False)


@app.command("secret", epilog=example("muster subscriptions secret billing"))
@command
async def secret(name: SubscriptionArgument, shell: CommandContext) -> None:
    """Print what signs deliveries; others that sign for a while yet go to standard error."""
    async with shell.connect() as client:
        with explain_not_found(_missing(name)):
            found = await client.get(_path(name, "secret"))
    print_secrets(found, shell)


@app.command("rotate", epilog=example("muster subscriptions rotate billing --overlap 7d"))
@command
async def rotate(
    name: SubscriptionArgument, shell: CommandContext, overlap: OverlapOption = None
) -> None:
    """Replace the secret: for a while both sign, so that no delivery fails to verify."""
    async with shell.connect() as client:
        with explain_not_found(_missing(name)):
            found = await rotate_secret(client, _path(name, "secret"), overlap)
    print_secrets(found, shell)


async def subscription_id(client: Client, name: str | None) -> str | None:
    """The id of a subscription that was named by its code or its id."""
    if name is None or name.startswith(ID_PREFIX):
        return name
    with explain_not_found(_missing(name)):
        return str((await client.get(_path(name)))["id"])


def parse_binding(text: str) -> dict[str, str]:
    """A type with its version, if one is behind it."""
    pattern, sign, version = text.partition("@")
    if not pattern or (sign and not version):
        raise InputError(f"'{text}' names no events: write TYPE, or TYPE@1.0.")
    return {"eventTypeCode": pattern} | ({"specVersion": version} if sign else {})


async def _change(name: str, verb: str, what: str, shell: CommandContext) -> None:
    async with shell.connect() as client:
        with explain_not_found(_missing(name)):
            changed = await client.post(_path(name, verb), {})
    if shell.as_json:
        print_json(changed)
    else:
        out.print(f"Subscription {changed['code']} {what}.", markup=False)


def _path(name: str, *rest: str) -> str:
    if not is_code(name) and not re.fullmatch(rf"{ID_PREFIX}[0-9A-Z]{{13}}", name):
        raise InputError(_missing(name))
    return join_path(PATH, name, *rest)


def _missing(name: str) -> str:
    return f"There is no subscription {name}: see `muster subscriptions list`."
