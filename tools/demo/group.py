"""The command group `muster demo`; without a name it plays the waits."""

import typer

from cli.shell.lazy import SETTINGS, CommandEntry, lazy_group

_PANEL = "Demos"

COMMANDS = (
    CommandEntry(
        name="waits",
        target="tools.demo.waits.command:demo",
        summary="Correlations complete, time out and refuse; what `muster demo` alone plays.",
        example="muster demo --fast",
        panel=_PANEL,
    ),
    CommandEntry(
        name="gather",
        target="tools.demo.gathers.command:gather",
        summary="One request asks three resources, and their answers stream back.",
        example="muster demo gather --fast",
        panel=_PANEL,
    ),
    CommandEntry(
        name="dispatch",
        target="tools.demo.dispatch.command:dispatch",
        summary="Events go to those who want them: signed, in order, at a rate.",
        example="muster demo dispatch --fast",
        panel=_PANEL,
    ),
)

app = typer.Typer(
    cls=lazy_group(COMMANDS, default="waits"),
    add_completion=False,
    context_settings=SETTINGS,
    help="Watch correlations, gathers and deliveries, before your eyes.",
)


@app.callback()
def _root() -> None: ...
