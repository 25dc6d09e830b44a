"""`muster jobs`: deliveries from the shell."""

from dataclasses import dataclass
from typing import Annotated

import typer

from cli.dispatch import job_verbs
from cli.dispatch.job_choice import PATH, JobFilterOptions, JobIdArgument, job_path, query_params
from cli.dispatch.job_views import job_view, jobs_view
from cli.dispatch.parsing import (
    CursorOption,
    LimitOption,
    encode_with_raw,
    parse_pairs,
    parse_seconds,
)
from cli.dispatch.recover import recover
from cli.dispatch.secrets import own_secret
from cli.shell.context import CommandContext, command, out, print_json
from cli.shell.credentials import parse_auth, parse_headers
from cli.shell.json_input import read_json_text
from cli.shell.lazy import SETTINGS, example
from cli.shell.tables import print_page
from core.dispatch.job import Mode
from core.dispatch.subscription import Signature

SOURCE = "muster-cli"

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="Look at deliveries, post them, and put right those that failed.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobListOptions(JobFilterOptions):
    """Which jobs a listing shows."""

    limit: LimitOption = 50
    cursor: CursorOption = None


@app.command(
    "list",
    epilog=example(
        "muster jobs list --status error --since 1h",
        "muster jobs list --group billing:customer-17",
    ),
)
@command
async def list_(options: JobListOptions, shell: CommandContext) -> None:
    """List deliveries, newest first, page by page."""
    async with shell.connect() as client:
        chosen = query_params(await options.conditions(client))
        page = await client.get(PATH, {**chosen, "limit": options.limit, "cursor": options.cursor})
    print_page(page, jobs_view, shell)


@app.command("show", epilog=example("muster jobs show 0PJ3F6SK81VB8"))
@command
async def show(job_id: JobIdArgument, shell: CommandContext) -> None:
    """Show one delivery: what it brings, where to, and what each attempt came to."""
    async with shell.connect() as client:
        found = await client.get(job_path(job_id))
    print_json(found) if shell.as_json else out.print(job_view(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class PostJobOptions:
    """A job to post; what is not given is Muster's usual."""

    data: Annotated[
        str, typer.Option("--data", "-d", help="What it brings: JSON, @file, or -.")
    ] = "{}"
    source: Annotated[str, typer.Option(help="Who wants it delivered.")] = SOURCE
    subject: Annotated[str | None, typer.Option(help="What it is about.")] = None
    group: Annotated[
        str | None, typer.Option(help="Message group: its jobs keep their order, but IMMEDIATE.")
    ] = None
    mode: Annotated[
        Mode | None,
        typer.Option(help="What its group does when it fails.", case_sensitive=False),
    ] = None
    sequence: Annotated[int | None, typer.Option(min=0, help="Its place in the group.")] = None
    pool: Annotated[str | None, typer.Option(help="The pool that delivers it.")] = None
    delay: Annotated[str | None, typer.Option(help="Not before, as in 10m.")] = None
    max_age: Annotated[str | None, typer.Option(help="Not after, as in 1d.")] = None
    timeout: Annotated[str | None, typer.Option(help="How long an attempt may take.")] = None
    retries: Annotated[int | None, typer.Option(min=1, help="Attempts in all.")] = None
    idempotency_key: Annotated[
        str | None, typer.Option(help="Posted again with it, it is still one job.")
    ] = None
    correlation: Annotated[str | None, typer.Option(help="Correlation id.")] = None
    client: Annotated[str | None, typer.Option(help="The client that it is about.")] = None
    schema: Annotated[str | None, typer.Option(help="Id of a schema that the data must fit.")] = (
        None
    )
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
    metadata: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE to keep with it; once for each.")
    ] = None
    envelope: Annotated[
        bool, typer.Option("--envelope", help="Put the data in an envelope with ids and times.")
    ] = False

    def body(self, code: str, target: str) -> bytes:
        """The request, with the data as it was written, digit by digit."""
        metadata = parse_pairs(self.metadata or (), "metadata")
        given = {
            "code": code,
            "targetUrl": target,
            "source": self.source,
            "subject": self.subject,
            "messageGroup": self.group,
            "mode": self.mode.value if self.mode else None,
            "sequence": self.sequence,
            "dispatchPoolId": self.pool,
            "delaySeconds": parse_seconds(self.delay),
            "maxAgeSeconds": parse_seconds(self.max_age),
            "timeoutSeconds": parse_seconds(self.timeout),
            "maxRetries": self.retries,
            "idempotencyKey": self.idempotency_key,
            "correlationId": self.correlation,
            "clientId": self.client,
            "schemaId": self.schema,
            "headers": parse_headers(self.header) if self.header else None,
            "auth": parse_auth(self.bearer, self.basic),
            "signature": self.signature.value if self.signature else None,
            "metadata": [{"key": key, "value": value} for key, value in metadata] or None,
            "dataOnly": False if self.envelope else None,
        }
        return encode_with_raw(given, "payload", read_json_text(self.data))


@app.command(
    "post",
    epilog=example(
        """muster jobs post shop:orders:order:ship https://shop.example.com/in -d '{"order": 17}'"""
    ),
)
@command
async def post(
    code: Annotated[str, typer.Argument(help="What it is.", metavar="CODE")],
    target: Annotated[str, typer.Argument(help="Where it is delivered.", metavar="URL")],
    options: PostJobOptions,
    shell: CommandContext,
) -> None:
    """Post a job to be delivered: signed, retried, rated and ordered as those of events are."""
    body = options.body(code, target)
    async with shell.connect() as client:
        job = await client.post(PATH, body)
    if shell.as_json:
        print_json(job)
    else:
        out.print(f"Job {job['id']} is {job['status']}.", markup=False)


for _name, _verb, _examples in (
    ("secret", own_secret, ["muster jobs secret"]),
    ("requeue", job_verbs.requeue, ["muster jobs requeue --code shop:orders:order:created"]),
    ("resend", job_verbs.resend, ["muster jobs resend 0PJ3F6SK81VB8"]),
    ("cancel", job_verbs.cancel, ["muster jobs cancel --group billing:customer-17"]),
    ("complete", job_verbs.complete, ["muster jobs complete 0PJ3F6SK81VB8"]),
    ("ignore", job_verbs.ignore, ["muster jobs ignore --pool slow-partner --yes"]),
    (
        "recover",
        recover,
        [
            "muster jobs recover --since 2h --dry-run",
            "muster jobs recover --since 2h --subscription billing --yes",
        ],
    ),
):
    app.command(_name, epilog=example(*_examples))(_verb)
