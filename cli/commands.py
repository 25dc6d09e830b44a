"""The commands of `muster`, in the order in which its help lists them."""

from importlib.metadata import version
from typing import Annotated

import typer

from cli.shell.lazy import SETTINGS, CommandEntry, lazy_group

_RUN = "Run"
_USE = "Use"
_DISPATCH = "Dispatch"
_ADMIN = "Administer"

COMMANDS = (
    CommandEntry(
        name="up",
        target="cli.operations.up:up",
        summary="Start Muster here: PostgreSQL, Ray, the actors and the HTTP API.",
        example="muster up --port 8000",
        panel=_RUN,
    ),
    CommandEntry(
        name="down",
        target="cli.operations.down:down",
        summary="Stop a Muster that was started here.",
        example="muster down --data-dir .muster",
        panel=_RUN,
    ),
    CommandEntry(
        name="status",
        target="cli.operations.status:status",
        summary="Show actors, hot correlations, flush rate and backlog.",
        example="muster status --watch",
        panel=_RUN,
    ),
    CommandEntry(
        name="demo",
        target="tools.demo.group:app",
        summary="Watch correlations, gathers and deliveries succeed and fail.",
        example="muster demo dispatch",
        panel=_RUN,
    ),
    CommandEntry(
        name="chaos",
        target="tools.chaos.command:app",
        summary="Break the local instance on purpose, under load, and account for every event.",
        example="muster chaos run kill-shard --kills 5",
        panel=_RUN,
    ),
    CommandEntry(
        name="wait",
        target="cli.waits.waits:app",
        summary="Register, show, list, cancel and explain wait states.",
        example="muster wait list --status waiting",
        panel=_USE,
    ),
    CommandEntry(
        name="send",
        target="cli.waits.send:send",
        summary="Send a callback or an event to a wait state.",
        example="""muster send order-17 payment --data '{"paid": true}'""",
        panel=_USE,
    ),
    CommandEntry(
        name="tail",
        target="cli.waits.tail:tail",
        summary="Follow the log of a wait state live, until it ends.",
        example="muster tail order-17 payment",
        panel=_USE,
    ),
    CommandEntry(
        name="gather",
        target="cli.gathers.gathers:app",
        summary="Ask many resources at once; show, follow and cancel gathers.",
        example="muster gather run laboratory pharmacy --timeout 10s",
        panel=_USE,
    ),
    CommandEntry(
        name="resources",
        target="cli.gathers.resources:app",
        summary="Register, list, show and remove the resources that gathers ask.",
        example="muster resources list",
        panel=_USE,
    ),
    CommandEntry(
        name="kafka",
        target="cli.kafka.command:app",
        summary="Show Kafka's state, handle dead letters again, send messages.",
        example="muster kafka status",
        panel=_USE,
    ),
    CommandEntry(
        name="events",
        target="cli.events.events:app",
        summary="Send events to their subscribers; list and show events.",
        example="""muster events send shop:orders:order:created -d '{"order": 17}'""",
        panel=_DISPATCH,
    ),
    CommandEntry(
        name="event-types",
        target="cli.events.event_types:app",
        summary="Register event types and the schemas of their versions.",
        example="muster event-types list",
        panel=_DISPATCH,
    ),
    CommandEntry(
        name="subscriptions",
        target="cli.dispatch.subscriptions:app",
        summary="Deliver events to an address; pause, resume, rotate secrets.",
        example="muster subscriptions list",
        panel=_DISPATCH,
    ),
    CommandEntry(
        name="pools",
        target="cli.dispatch.pools:app",
        summary="Limit the rate and the concurrency of deliveries; watch pools.",
        example="muster pools stats --watch",
        panel=_DISPATCH,
    ),
    CommandEntry(
        name="jobs",
        target="cli.dispatch.jobs:app",
        summary="List, show and post deliveries; repair those that failed.",
        example="muster jobs list --status error --since 1h",
        panel=_DISPATCH,
    ),
    CommandEntry(
        name="groups",
        target="cli.dispatch.groups:app",
        summary="Show message groups and what blocks them; park, resume, skip.",
        example="muster groups list --state blocked",
        panel=_DISPATCH,
    ),
    CommandEntry(
        name="warnings",
        target="cli.dispatch.warnings:app",
        summary="List and acknowledge warnings about deliveries.",
        example="muster warnings list",
        panel=_DISPATCH,
    ),
    CommandEntry(
        name="breakers",
        target="cli.dispatch.breakers:app",
        summary="Show which failing targets are not called; try them again.",
        example="muster breakers list",
        panel=_DISPATCH,
    ),
    CommandEntry(
        name="secrets",
        target="cli.access.secrets:app",
        summary="Show which keys encrypt stored secrets; rotate and remove keys.",
        example="muster secrets status",
        panel=_ADMIN,
    ),
    CommandEntry(
        name="keys",
        target="cli.access.keys:app",
        summary="Create, list and revoke API keys.",
        example="muster keys list",
        panel=_ADMIN,
    ),
    CommandEntry(
        name="tokens",
        target="cli.access.tokens:app",
        summary="List and replace the secrets that sign callback and stream URLs.",
        example="muster tokens rotate --grace 24h",
        panel=_ADMIN,
    ),
    CommandEntry(
        name="quotas",
        target="cli.access.quotas:app",
        summary="Show how much of its quotas a tenant has used; set its limits.",
        example="muster quotas list",
        panel=_ADMIN,
    ),
    CommandEntry(
        name="audit",
        target="cli.access.audit:audit",
        summary="List who changed keys and secrets.",
        example="muster audit --limit 20",
        panel=_ADMIN,
    ),
    CommandEntry(
        name="migrate",
        target="cli.operations.migrate:migrate",
        summary="Bring the database schema up to date.",
        example="muster migrate --dry-run",
        panel=_ADMIN,
    ),
    CommandEntry(
        name="haproxy",
        target="cli.operations.haproxy_command:haproxy",
        summary="Write the program that Ray starts as HAProxy on the machines of a cluster.",
        example="muster haproxy ~/muster-front",
        panel=_ADMIN,
    ),
    CommandEntry(
        name="config",
        target="cli.operations.config_command:config",
        summary="Show every setting, its value and where it comes from.",
        example="muster config",
        panel=_ADMIN,
    ),
)

app = typer.Typer(
    cls=lazy_group(COMMANDS),
    no_args_is_help=True,
    context_settings=SETTINGS,
    help="Muster collects the events that belong together, and acts once.",
    epilog="Every command has --help with an example. Start with `muster up`, then `muster demo`.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"muster {version('muster')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None: ...
