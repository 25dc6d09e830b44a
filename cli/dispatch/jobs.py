"""`muster jobs`: deliveries."""

from dataclasses import dataclass

from rich.console import Group, RenderableType

from cli.dispatch.delivery_options import DeliveryOptions
from cli.dispatch.job_actions import job_action, recover
from cli.dispatch.job_filters import (
    PATH,
    JobFilterOptions,
    attempts,
    job_status,
    jobs,
    resolve_subscription,
)
from cli.dispatch.secrets import own_secret
from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.context import CommandContext, subcommand
from cli.shell.json_input import read_json_text
from cli.shell.options import argument, option, request_fields
from cli.shell.output import columns, pairs, sections, table_or
from cli.shell.parsing import encode_with_raw, parse_entries
from core.dispatch.job_actions import JobAction

SOURCE = "muster-cli"
app = jobs.app


def _target(job: Document) -> str:
    return f"{job.get('targetUrl')}{'  (with credentials)' if job.get('hasAuth') else ''}"


def _mode(job: Document) -> str:
    sequence = f", sequence {job.get('sequence')}" if job.get("messageGroup") else ""
    return f"{job.get('mode')}{sequence}"


def _not_before(job: Document) -> str:
    return "" if job.get("completedAt") else fmt.moment(job.get("scheduledFor"))


def _ended(job: Document) -> str:
    took = job.get("durationMillis")
    after = "" if took is None else f", after {fmt.format_duration(took / 1000)}"
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
    ("answer", lambda one: fmt.short_line(one.get("errorMessage") or one.get("responseBody"))),
)


jobs.add_list(
    "List jobs, newest first, page by page.",
    "muster jobs list --status error --since 1h",
    "muster jobs list --group billing:customer-17",
    filters=JobFilterOptions,
    resolve=resolve_subscription,
    limit=50,
)


def _view(job: Document) -> RenderableType:
    made = table_or(ATTEMPTS, job.get("attempts") or (), "No attempt was made yet.")
    encoding = str(job.get("payloadEncoding"))
    payload = fmt.payload(job.get("payload"), encoding, "The payload is no longer stored.")
    return sections(pairs(JOB, job), made, Group(fmt.dim("payload"), payload))


jobs.add_show("Show one job: its payload, its target, and the result of each attempt.", _view)


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
        "NAME=VALUE to store with the job; repeatable.",
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
jobs.add_verb(
    "resend",
    "Deliver a completed job once more, with the same idempotency key.",
    "Job {id} is queued to be delivered once more.",
)
subcommand(
    app,
    "recover",
    "muster jobs recover --since 2h --dry-run",
    "muster jobs recover --since 2h --subscription billing --yes",
)(recover)
