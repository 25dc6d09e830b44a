"""The commands of `muster kafka`; each is imported when it is called."""

import typer

from cli.shell.lazy import SETTINGS, CommandEntry, lazy_group

_PANEL = "Kafka"

COMMANDS = (
    CommandEntry(
        name="status",
        target="cli.kafka.status:status",
        summary="Show brokers, topics, consumers and the relay.",
        example="muster kafka status --watch",
        panel=_PANEL,
    ),
    CommandEntry(
        name="lag",
        target="cli.kafka.status:lag",
        summary="Show how far Muster has stored each partition.",
        example="muster kafka lag",
        panel=_PANEL,
    ),
    CommandEntry(
        name="dead-letters",
        target="cli.kafka.dead_letters:app",
        summary="List, show and delete messages that could not be handled.",
        example="muster kafka dead-letters list --topic payments",
        panel=_PANEL,
    ),
    CommandEntry(
        name="redrive",
        target="cli.kafka.redrive:redrive",
        summary="Handle dead letters again.",
        example="muster kafka redrive --topic payments",
        panel=_PANEL,
    ),
    CommandEntry(
        name="rewind",
        target="cli.kafka.rewind:rewind",
        summary="Read messages again, after a restore of the database.",
        example="muster kafka rewind --to 2h",
        panel=_PANEL,
    ),
    CommandEntry(
        name="produce",
        target="cli.kafka.produce:produce",
        summary="Send messages to a topic.",
        example="""muster kafka produce payments -d '{"order": "17"}' --key 17""",
        panel=_PANEL,
    ),
)

app = typer.Typer(
    cls=lazy_group(COMMANDS),
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
)


@app.callback()
def _root() -> None: ...
