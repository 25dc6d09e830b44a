"""The commands of `muster kafka`; each is imported when it is called."""

from cli.shell.lazy import command_group, command_panel, lazy_group

COMMANDS = command_panel(
    "Kafka",
    ("status", "cli.kafka.status", "Show brokers, topics, consumers and the relay."),
    ("lag", "cli.kafka.status", "Show how far Muster has stored each partition."),
    (
        "dead-letters",
        "cli.kafka.dead_letters",
        "Show and delete messages that could not be handled.",
    ),
    ("redrive", "cli.kafka.redrive", "Handle dead letters again."),
    ("rewind", "cli.kafka.rewind", "Read messages again, after a restore of the database."),
    ("produce", "cli.kafka.produce", "Send messages to a topic."),
)

app = command_group("muster kafka status", cls=lazy_group(COMMANDS))


@app.callback()
def _root() -> None: ...
