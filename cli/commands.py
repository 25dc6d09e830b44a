"""The commands of `muster`, in the order in which its help lists them."""

from typing import Annotated

import typer

from cli.shell.lazy import SETTINGS, command_panel, lazy_group
from cli.shell.values import read_values_without_pydantic

RUN = command_panel(
    "Run",
    ("up", "cli.operations.up", "Start Muster here: PostgreSQL, Ray, the actors and the HTTP API."),
    ("down", "cli.operations.down", "Stop a Muster that was started here."),
    ("status", "cli.operations.status", "Show actors, hot correlations, flush rate and backlog."),
    ("demo", "tools.demo.group", "Watch correlations, gathers and deliveries succeed and fail."),
    ("chaos", "tools.chaos.command", "Break the instance on purpose, and account for every event."),
)
USE = command_panel(
    "Use",
    ("wait", "cli.waits.waits", "Register, show, list, cancel and explain wait states."),
    ("send", "cli.waits.send", "Send a callback or an event to a wait state."),
    ("tail", "cli.waits.tail", "Follow the log of a wait state live, until it ends."),
    ("gather", "cli.gathers.gathers", "Ask many resources at once; show and cancel gathers."),
    ("resources", "cli.gathers.resources", "Register and remove the resources that gathers ask."),
    ("kafka", "cli.kafka.command", "Show Kafka's state, handle dead letters again, send messages."),
)
DISPATCH = command_panel(
    "Dispatch",
    ("events", "cli.events.events", "Send events to their subscribers; list and show events."),
    ("event-types", "cli.events.event_types", "Register event types and their schemas."),
    ("subscriptions", "cli.dispatch.subscriptions", "Deliver events to addresses; rotate secrets."),
    ("pools", "cli.dispatch.pools", "Limit the rate and the concurrency of deliveries."),
    ("jobs", "cli.dispatch.jobs", "List, show and post deliveries; repair those that failed."),
    ("groups", "cli.dispatch.groups", "Show what blocks message groups; park, resume, skip."),
    ("warnings", "cli.dispatch.warnings", "List and acknowledge warnings about deliveries."),
    ("breakers", "cli.dispatch.breakers", "Show failing targets that are not called; try again."),
)
RECORDS = command_panel(
    "Records",
    ("collections", "cli.records.collections", "Define collections of records, and change them."),
    ("records", "cli.records.records", "Read, write, import and export records."),
    ("paths", "cli.records.paths", "Check data paths, and show what they lead to."),
    ("expressions", "cli.records.expressions", "Check and evaluate conditions and formulas."),
    ("templates", "cli.records.templates", "Render texts with the values of a record."),
)
ADMINISTER = command_panel(
    "Administer",
    ("secrets", "cli.access.secrets", "Show and rotate the keys that encrypt stored secrets."),
    ("keys", "cli.access.keys", "Create, list and revoke API keys."),
    ("tokens", "cli.access.tokens", "Replace the secrets that sign callback and stream URLs."),
    ("quotas", "cli.access.quotas", "Show what a tenant has used of its quotas; set limits."),
    ("audit", "cli.access.audit", "List who changed keys and secrets."),
    ("migrate", "cli.operations.migrate", "Bring the database schema up to date."),
    ("haproxy", "cli.operations.haproxy_command", "Write HAProxy's program for a cluster."),
    ("config", "cli.operations.config_command", "Show every setting and where it comes from."),
)
COMMANDS = (*RUN, *USE, *DISPATCH, *RECORDS, *ADMINISTER)

read_values_without_pydantic()
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
