"""`muster subscriptions`: which events are delivered where."""

from dataclasses import dataclass
from typing import Any

from cli.dispatch.delivery_options import DeliveryOptions
from cli.dispatch.secrets import OverlapOption, print_secrets, rotation_body
from cli.shell import formats as fmt
from cli.shell.client import Client, Document
from cli.shell.context import CommandContext, err, print_json, subcommand
from cli.shell.errors import InputError
from cli.shell.options import argument, option, request_fields
from cli.shell.output import columns, pairs
from cli.shell.parsing import name_from_code
from cli.shell.problems import explain_not_found
from cli.shell.resource import ApiResource
from core.dispatch.subscription import SubscriptionStatus, is_code

PATH = "/api/subscriptions"
ID_PREFIX = "sub_"
STATUS = fmt.styled({"ACTIVE": "green", "PAUSED": "yellow"})


def _bindings(subscription: Document) -> str:
    bindings = subscription.get("eventTypes") or ()
    return "\n".join(
        f"{one['eventTypeCode']}@{one['specVersion']}"
        if one.get("specVersion")
        else str(one["eventTypeCode"])
        for one in bindings
    )


subscriptions = ApiResource(
    "subscription",
    "subscriptions",
    PATH,
    argument=argument("The subscription's code or id.", metavar="SUBSCRIPTION"),
    example="billing",
    listing=columns(
        "code",
        ("event types", _bindings),
        "target",
        "mode",
        ("pool", "dispatchPoolCode"),
        ("status", "status", STATUS),
    ),
    details=columns(
        ("subscription", "code"),
        "name",
        "description",
        ("status", "status", STATUS),
        ("reason", "statusReason", fmt.styled({}, "yellow")),
        ("failing since", "failingSince", lambda value: fmt.error(fmt.moment(value))),
        ("event types", _bindings),
        "filter",
        "target",
        ("headers", "headers", fmt.header_lines),
        ("credentials", "auth", fmt.auth_type),
        "signature",
        ("body", "dataOnly", fmt.either("the data alone", "an envelope")),
        "mode",
        ("pool", "dispatchPoolCode"),
        "sequence",
        ("attempts", "maxRetries"),
        ("timeout", "timeoutSeconds", fmt.length),
        ("delay", "delaySeconds", fmt.length),
        ("expires after", "maxAgeSeconds", fmt.length),
        "id",
        "version",
        *fmt.TIMES,
    ),
    id_pattern=f"{ID_PREFIX}[0-9A-Z]{{13}}",
    is_code=is_code,
)
app = subscriptions.app


def parse_binding(text: str) -> dict[str, str]:
    """Read an event type, with a version behind an @ or without."""
    pattern, sign, version = text.partition("@")
    if not pattern or (sign and not version):
        raise InputError(f"'{text}' is not an event type: write TYPE, or TYPE@1.0.")
    return {"eventTypeCode": pattern} | ({"specVersion": version} if sign else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionFilters:
    status: SubscriptionStatus | None = option(
        "Only subscriptions of this status.", case_sensitive=False
    )
    event_type: str | None = option("Only subscriptions to this event type.", "--type")
    pool: str | None = option("Only subscriptions of this pool.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionOptions:
    event_type: list[str] | None = option(
        "An event type to receive; * stands for any segment, @1.0 or @1.* selects a "
        "version; repeatable.",
        "--type",
        "-t",
        api="eventTypes",
        convert=lambda given: [parse_binding(text) for text in given],
    )
    filter_: str | None = option(
        "Only events that match, as in 'data.total > 9'; none for all.",
        "--filter",
        convert=lambda text: None if text == "none" else text,
    )
    envelope: bool | None = option(
        "Deliver the data in an envelope with ids and times, or the data alone.",
        "--envelope/--data-only",
        api="dataOnly",
        convert=lambda envelope: not envelope,
    )
    name: str | None = option("A name for people.")
    description: str | None = option("What the subscription is for.")


subscriptions.add_list(
    "List subscriptions by code, page by page.",
    "muster subscriptions list --type shop:orders:order:created",
    filters=SubscriptionFilters,
)
subscriptions.add_show(
    "Show one subscription: which events it receives, how they are delivered, and its status."
)


@subcommand(
    app,
    "create",
    "muster subscriptions create billing https://billing.example.com/hook "
    "--type shop:orders:order:created",
    "muster subscriptions create audit https://audit.example.com/in --type 'shop:*:*:*' "
    "--mode BLOCK_ON_ERROR --pool slow-partner",
)
async def create(
    options: SubscriptionOptions,
    delivery: DeliveryOptions,
    shell: CommandContext,
    code: str = argument("A code, as in billing.", metavar="CODE"),
    target: str = argument("Where events are delivered.", metavar="URL"),
) -> None:
    """Subscribe an address to events, and print the secret that signs its deliveries."""
    if not is_code(code):
        raise InputError(
            f"'{code}' is not a code: use lower-case letters, digits and dashes, as in billing-eu."
        )
    fields = request_fields(options, delivery)
    if not options.event_type:
        raise InputError("Name the events to receive: --type shop:orders:order:created.")
    async with shell.connect() as client:
        body = {"code": code, "name": name_from_code(code), "target": target, **fields}
        created = await client.post(PATH, body)
        secrets = await client.get(subscriptions.path_of(code, "secret"))
    if shell.as_json:
        print_json({**created, **secrets})
        return
    # The secret alone goes to standard output, so that a script can catch it.
    err.print(f"Subscription {code} is active. Its signing secret is:", markup=False)
    print(secrets["secret"], flush=True)


@subcommand(
    app,
    "change",
    "muster subscriptions change billing --target https://new.example.com/hook",
    "muster subscriptions change billing --mode NEXT_ON_ERROR --retries 8",
)
async def change(
    options: SubscriptionOptions,
    delivery: DeliveryOptions,
    shell: CommandContext,
    subscription: str = subscriptions.argument,
    target: str | None = option("Where events are delivered.", metavar="URL"),
) -> None:
    """Change the given settings of a subscription; the others stay, and so do its secrets."""
    body = request_fields(options, delivery) | ({"target": target} if target else {})
    if not body:
        raise InputError("Say what to change, as in --target URL.")
    changed = await subscriptions.call(shell, "patch", subscription, body=body)
    shell.print(changed, pairs(subscriptions.details, changed))


subscriptions.add_verb(
    "pause",
    "Pause a subscription: it receives no more events; queued deliveries continue.",
    "Subscription {code} is paused.",
)
subscriptions.add_verb(
    "resume",
    "Resume a subscription: it receives events from now on, and its failures are forgotten.",
    "Subscription {code} is active.",
)
subscriptions.add_remove(
    "rm",
    "Remove a subscription and its secrets; its queued deliveries are cancelled.",
    "subscription",
    "removed",
)


@subcommand(app, "secret", "muster subscriptions secret billing")
async def secret(shell: CommandContext, name: str = subscriptions.argument) -> None:
    """Print the signing secret; older ones that still sign go to standard error."""
    print_secrets(await subscriptions.call(shell, "get", name, "secret"), shell)


@subcommand(app, "rotate", "muster subscriptions rotate billing --overlap 7d")
async def rotate(
    shell: CommandContext, name: str = subscriptions.argument, overlap: OverlapOption = None
) -> None:
    """Replace the signing secret; for a while both sign, so that every delivery verifies."""
    body = rotation_body(overlap)
    found = await subscriptions.call(shell, "post", name, "secret", "rotate", body=body)
    print_secrets(found, shell)


async def subscription_id(client: Client, name: Any) -> str:
    """Find the id of a subscription that was named by its code or its id."""
    if name.startswith(ID_PREFIX):
        return str(name)
    with explain_not_found(subscriptions.missing(name)):
        return str((await client.get(subscriptions.path_of(name)))["id"])
