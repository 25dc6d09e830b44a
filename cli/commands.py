"""The commands of `muster`, in the order in which its help lists them."""

from typing import Annotated

import typer

from cli.shell.lazy import SETTINGS, command_panel, lazy_group

COMMANDS = (
    *command_panel(
        "Run",
        (
            "up",
            "cli.operations.up:up",
            "Start Muster here: PostgreSQL, Ray, the actors and the HTTP API.",
            "muster up --port 8000",
        ),
        (
            "down",
            "cli.operations.down:down",
            "Stop a Muster that was started here.",
            "muster down --data-dir .muster",
        ),
        (
            "status",
            "cli.operations.status:status",
            "Show actors, hot correlations, flush rate and backlog.",
            "muster status --watch",
        ),
        (
            "demo",
            "tools.demo.group:app",
            "Watch correlations, gathers and deliveries succeed and fail.",
            "muster demo dispatch",
        ),
        (
            "chaos",
            "tools.chaos.command:app",
            "Break the local instance on purpose, under load, and account for every event.",
            "muster chaos run kill-shard --kills 5",
        ),
    ),
    *command_panel(
        "Use",
        (
            "wait",
            "cli.waits.waits:app",
            "Register, show, list, cancel and explain wait states.",
            "muster wait list --status waiting",
        ),
        (
            "send",
            "cli.waits.send:send",
            "Send a callback or an event to a wait state.",
            """muster send order-17 payment --data '{"paid": true}'""",
        ),
        (
            "tail",
            "cli.waits.tail:tail",
            "Follow the log of a wait state live, until it ends.",
            "muster tail order-17 payment",
        ),
        (
            "gather",
            "cli.gathers.gathers:app",
            "Ask many resources at once; show, follow and cancel gathers.",
            "muster gather run laboratory pharmacy --timeout 10s",
        ),
        (
            "resources",
            "cli.gathers.resources:app",
            "Register, list, show and remove the resources that gathers ask.",
            "muster resources list",
        ),
        (
            "kafka",
            "cli.kafka.command:app",
            "Show Kafka's state, handle dead letters again, send messages.",
            "muster kafka status",
        ),
    ),
    *command_panel(
        "Dispatch",
        (
            "events",
            "cli.events.events:app",
            "Send events to their subscribers; list and show events.",
            """muster events send shop:orders:order:created -d '{"order": 17}'""",
        ),
        (
            "event-types",
            "cli.events.event_types:app",
            "Register event types and the schemas of their versions.",
            "muster event-types list",
        ),
        (
            "subscriptions",
            "cli.dispatch.subscriptions:app",
            "Deliver events to an address; pause, resume, rotate secrets.",
            "muster subscriptions list",
        ),
        (
            "pools",
            "cli.dispatch.pools:app",
            "Limit the rate and the concurrency of deliveries; watch pools.",
            "muster pools stats --watch",
        ),
        (
            "jobs",
            "cli.dispatch.jobs:app",
            "List, show and post deliveries; repair those that failed.",
            "muster jobs list --status error --since 1h",
        ),
        (
            "groups",
            "cli.dispatch.groups:app",
            "Show message groups and what blocks them; park, resume, skip.",
            "muster groups list --state blocked",
        ),
        (
            "warnings",
            "cli.dispatch.warnings:app",
            "List and acknowledge warnings about deliveries.",
            "muster warnings list",
        ),
        (
            "breakers",
            "cli.dispatch.breakers:app",
            "Show which failing targets are not called; try them again.",
            "muster breakers list",
        ),
    ),
    *command_panel(
        "Administer",
        (
            "secrets",
            "cli.access.secrets:app",
            "Show which keys encrypt stored secrets; rotate and remove keys.",
            "muster secrets status",
        ),
        ("keys", "cli.access.keys:app", "Create, list and revoke API keys.", "muster keys list"),
        (
            "tokens",
            "cli.access.tokens:app",
            "List and replace the secrets that sign callback and stream URLs.",
            "muster tokens rotate --grace 24h",
        ),
        (
            "quotas",
            "cli.access.quotas:app",
            "Show how much of its quotas a tenant has used; set its limits.",
            "muster quotas list",
        ),
        (
            "audit",
            "cli.access.audit:audit",
            "List who changed keys and secrets.",
            "muster audit --limit 20",
        ),
        (
            "migrate",
            "cli.operations.migrate:migrate",
            "Bring the database schema up to date.",
            "muster migrate --dry-run",
        ),
        (
            "haproxy",
            "cli.operations.haproxy_command:haproxy",
            "Write the program that Ray starts as HAProxy on the machines of a cluster.",
            "muster haproxy ~/muster-front",
        ),
        (
            "config",
            "cli.operations.config_command:config",
            "Show every setting, its value and where it comes from.",
            "muster config",
        ),
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
        from importlib.metadata import version  # noqa: PLC0415  slow, and seldom asked for

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
