"""`muster jobs`: deliveries."""

from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from cli.dispatch.delivery_options import DeliveryOptions
from cli.dispatch.job_actions import job_action, resend
from cli.dispatch.job_filters import (
    JOBS,
    PATH,
    JobFilterOptions,
    JobIdArgument,
    attempts,
    job_path,
    job_status,
)
from cli.dispatch.recover import recover
from cli.dispatch.secrets import own_secret
from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.context import CommandContext, subcommand
from cli.shell.durations import format_duration
from cli.shell.json_input import read_json_text
from cli.shell.lazy import command_group
from cli.shell.options import argument, option, request_fields
from cli.shell.output import columns, pairs, sections, table
from cli.shell.parsing import encode_with_raw, parse_entries
from cli.shell.resource import CursorOption, LimitOption, print_page
from core.dispatch.job_actions import JobAction

SOURCE = "muster-cli"
app = command_group()


def _target(job: Document) -> Text:
    return Text(f"{job.get('targetUrl')}{'  (with credentials)' if job.get('hasAuth') else ''}")


def _mode(job: Document) -> str:
    sequence = f", sequence {job.get('sequence')}" if job.get("messageGroup") else ""
    return f"{job.get('mode')}{sequence}"


def _not_before(job: Document) -> str:
    return "" if job.get("completedAt") else fmt.moment(job.get("scheduledFor"))


def _ended(job: Document) -> str:
    took = job.get("durationMillis")
    after = "" if took is None else f", after {format_duration(took / 1000)}"
    return f"{fmt.moment(job.get('completedAt'))}{after}"


JOB = columns(
    ("job", "id"),
    "kind",
    "code",
    ("status", job_status),
    ("error", "lastError", fmt.error),
    ("target", _target),
    "signature",
    ("pool", "dispatchPoolCode"),
    ("group", "messageGroup"),
    ("mode", _mode),
    ("event", "eventId"),
    ("subscription", "subscriptionId"),
    "source",
    "subject",
    ("correlation", "correlationId"),
    ("client", "clientId"),
    ("schema", "schemaId"),
    ("idempotency key", "idempotencyKey"),
    ("metadata", "metadata", fmt.key_values),
    ("attempts", attempts),
    ("timeout", "timeoutSeconds", fmt.length),
    ("created", "createdAt", fmt.moment),
    ("not before", _not_before),
    ("expires", "expiresAt", fmt.moment),
    ("ended", _ended),
    ("ignored", "ignoredAt", fmt.moment),
)
ATTEMPTS = columns(
    ("attempt", "attemptNumber", fmt.RightAligned(fmt.text)),
    ("time", "attemptedAt", fmt.clock_time),
    ("result", "status", fmt.styled({"SUCCESS": "green", "DEFERRED": "yellow"}, "red")),
    ("HTTP", "responseCode", fmt.RightAligned(fmt.text)),
    ("took", "durationMillis", fmt.milliseconds),
    (
        "answer",
        lambda one: Text(fmt.short_line(one.get("errorMessage") or one.get("responseBody"))),
    ),
)


@subcommand(
    app,
    "list",
    "muster jobs list --status error --since 1h",
    "muster jobs list --group billing:customer-17",
)
async def list_(
    filters: JobFilterOptions,
    shell: CommandContext,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """List jobs, newest first, page by page."""
    async with shell.connect() as client:
        chosen = await filters.conditions(client)
        page = await client.get(PATH, {**chosen, "limit": limit, "cursor": cursor})
    print_page(page, JOBS, "No jobs.", shell)


@subcommand(app, "show", "muster jobs show 0PJ3F6SK81VB8")
async def show(job_id: JobIdArgument, shell: CommandContext) -> None:
    """Show one job: its payload, its target, and the result of each attempt."""
    job = await shell.call("get", job_path(job_id))
    tried = job.get("attempts")
    made = table(ATTEMPTS, tried) if tried else fmt.dim("No attempt was made yet.")
    shell.print(job, sections(pairs(JOB, job), made, _payload(job)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PostJobOptions:
    data: str = option(
        "The payload: JSON, @file, or -.",
        "--data",
        "-d",
        default="{}",
        api="payload",
        convert=read_json_text,
    )
    source: str = option("Who posts the job.", default=SOURCE)
    subject: str | None = option("What the job is about.")
    group: str | None = option(
        "Message group, whose jobs keep their order unless IMMEDIATE.", api="messageGroup"
    )
    idempotency_key: str | None = option("A job posted again with this key is the same job.")
    correlation: str | None = option("Correlation id.", api="correlationId")
    client: str | None = option("The client that the job is about.", api="clientId")
    schema: str | None = option("Id of a schema that validates the data.", api="schemaId")
    metadata: list[str] | None = option(
        "KEY=VALUE to store with the job; repeatable.",
        api="metadata",
        convert=parse_entries("metadata"),
    )
    envelope: bool = option(
        "Deliver the data in an envelope with ids and times.",
        "--envelope",
        default=False,
        api="dataOnly",
        convert=lambda envelope: not envelope,
    )


@subcommand(
    app,
    "post",
    """muster jobs post shop:orders:order:ship https://shop.example.com/in -d '{"order": 17}'""",
)
async def post(
    options: PostJobOptions,
    delivery: DeliveryOptions,
    shell: CommandContext,
    code: str = argument("What kind of job it is.", metavar="CODE"),
    target: str = argument("Where to deliver it.", metavar="URL"),
) -> None:
    """Post a job: it is signed, retried, rate-limited and ordered as deliveries of events are."""
    fields = {"code": code, "targetUrl": target, **request_fields(options, delivery)}
    # The payload is sent as it was written, digit by digit.
    body = encode_with_raw(fields, "payload", fields.pop("payload"))
    job = await shell.call("post", PATH, body=body)
    shell.print(job, f"Job {job['id']} is {job['status']}.")


subcommand(app, "secret", "muster jobs secret")(own_secret)
for _action, _selection in (
    (JobAction.REQUEUE, "--code shop:orders:order:created"),
    (JobAction.CANCEL, "--group billing:customer-17"),
    (JobAction.COMPLETE, "0PJ3F6SK81VB8"),
    (JobAction.IGNORE, "--pool slow-partner --yes"),
):
    _example = f"muster jobs {_action.value} {_selection}"
    subcommand(app, _action.value, _example)(job_action(_action))
subcommand(app, "resend", "muster jobs resend 0PJ3F6SK81VB8")(resend)
subcommand(
    app,
    "recover",
    "muster jobs recover --since 2h --dry-run",
    "muster jobs recover --since 2h --subscription billing --yes",
)(recover)


def _payload(job: Document) -> RenderableType:
    payload = job.get("payload")
    match job.get("payloadEncoding"):
        case "none":
            return fmt.dim("The payload is no longer stored.")
        case "json":
            shown = fmt.pretty(payload)
        case "base64":
            shown = f"{payload}  (base64)"
        case _:
            shown = str(payload)
    return Group(fmt.dim("payload"), Text(shown))
