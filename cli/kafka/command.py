"""The commands of `muster kafka`; each is imported when it is called."""

import typer

from cli.shell.lazy import SETTINGS, command_panel, lazy_group

COMMANDS = command_panel(
    "Kafka",
    (
        "status",
        "cli.kafka.status:status",
        "Show brokers, topics, consumers and the relay.",
        "muster kafka status --watch",
    ),
    (
        "lag",
        "cli.kafka.status:lag",
        "Show how far Muster has stored each partition.",
        "muster kafka lag",
    ),
    (
        "dead-letters",
        "cli.kafka.dead_letters:app",
        "List, show and delete messages that could not be handled.",
        "muster kafka dead-letters list --topic payments",
    ),
    (
        "redrive",
        "cli.kafka.redrive:redrive",
        "Handle dead letters again.",
        "muster kafka redrive --topic payments",
    ),
    (
        "rewind",
        "cli.kafka.rewind:rewind",
        "Read messages again, after a restore of the database.",
        "muster kafka rewind --to 2h",
    ),
    (
        "produce",
        "cli.kafka.produce:produce",
        "Send messages to a topic.",
        """muster kafka produce payments -d '{"order": "17"}' --key 17""",
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
