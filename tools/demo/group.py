"""The command group `muster demo`; without a name it plays the waits."""

from cli.shell.lazy import command_group, command_panel, lazy_group

COMMANDS = command_panel(
    "Demos",
    (
        "waits",
        "tools.demo.waits.command",
        "Correlations complete, time out and refuse; what `muster demo` alone plays.",
    ),
    (
        "gather",
        "tools.demo.gathers.command",
        "One request asks three resources, and their answers stream back.",
    ),
    (
        "dispatch",
        "tools.demo.dispatch.command",
        "Events go to those who want them: signed, in order, at a rate.",
    ),
    (
        "records",
        "tools.demo.records.command",
        "Records are saved, refused, changed by two at once, listed and deleted.",
    ),
)
app = command_group(
    "muster demo dispatch",
    cls=lazy_group(COMMANDS, default="waits"),
    help="Watch correlations, gathers, deliveries and records, before your eyes.",
)


@app.callback()
def _root() -> None: ...
