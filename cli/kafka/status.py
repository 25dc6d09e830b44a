"""`muster kafka status` and `muster kafka lag`."""

from collections.abc import Callable
from functools import partial
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.context import CommandContext, single_command
from cli.shell.output import columns, pairs, sections, table, table_or
from cli.shell.watching import WatchOptions, show_or_watch

PATH = "/api/kafka"


def _state(kafka: Document) -> Text:
    if kafka.get("connected"):
        return Text("connected", style="green")
    actors = [*(kafka.get("ingest") or ()), *([kafka["relay"]] if kafka.get("relay") else [])]
    errors = "; ".join(f"{one['name']}: {one['error']}" for one in actors if one.get("error"))
    return Text(errors or "not connected", style="bold red")


def _total_lag(kafka: Document) -> str:
    partitions = kafka.get("partitions") or ()
    behind = sum(row.get("lag") or 0 for row in partitions)
    return f"{behind:,} messages on {len(partitions)} partitions"


def _published(relay: Document | None) -> str:
    if not relay:
        return ""
    words = f"{relay['published']:,}, {relay['backlog']:,} waiting"
    if relay["backlog"]:
        words += f" (the oldest for {fmt.format_duration(relay['oldestSeconds'])})"
    troubles = {"heldTopics": "topics held back", "refused": "events refused", "vanished": "lost"}
    return ", ".join([words, *(f"{relay[n]:,} {w}" for n, w in troubles.items() if relay.get(n))])


@fmt.RightAligned
def _lag(lag: int | None) -> Text:
    return Text(str(fmt.number(lag)), style="yellow" if lag else "")


BROKERS = columns(
    ("brokers", lambda kafka: Text(f"{kafka['bootstrap']}  ({kafka['securityProtocol']})")),
    ("state", _state),
    ("group", lambda kafka: Text(f"{kafka['group']}, as tenant {kafka['tenant']}")),
    ("lag", _total_lag),
    ("dead letters", "deadLetters", fmt.number),
    ("published", "relay", _published),
)
TOPICS = columns(
    "topic",
    (
        "state",
        "state",
        fmt.styled(
            {"followed": "green", "missing": "yellow", "not_yours": "red", "unknown": "yellow"}
        ),
    ),
    ("partitions", "partitions", fmt.number),
    ("lag", "lag", fmt.number),
    ("dead letters", "deadLetters", fmt.number),
)
CONSUMERS = columns(
    ("consumer", "name"),
    ("state", "connected", fmt.up_or_down),
    ("restarts", "restarts", fmt.number),
    ("partitions", "partitions", fmt.number),
    ("messages", "records", fmt.number),
    ("batches", "batches", fmt.number),
    ("in flight", "inFlight", fmt.number),
    ("commits", "commits", fmt.number),
    ("rebalances", "rebalances", fmt.number),
    ("pauses", "pauses", fmt.number),
)
PARTITIONS = columns(
    "topic",
    ("partition", "partition", fmt.RightAligned(fmt.text)),
    ("stored", "stored", fmt.number),
    ("end", "end", fmt.number),
    ("lag", "lag", _lag),
    ("read by", "actor"),
)


@single_command("muster kafka status --watch")
async def status(shell: CommandContext, options: WatchOptions) -> None:
    """Show brokers, topics, consumers and the relay, as far as they concern your tenant.

    A topic is followed, missing (the cluster has none of that name yet), not_yours (a wait names
    it, but it belongs to another tenant), not_followed (only its dead letters are left) or unknown
    (the cluster was not reached). With --watch and --json each poll is one line.
    """
    await _show(shell, options, _status_view)


@single_command("muster kafka lag")
async def lag(shell: CommandContext, options: WatchOptions) -> None:
    """Show for each partition the offset up to which messages are stored, and how many are not.

    With --watch and --json each poll is one line.
    """
    await _show(shell, options, _lag_view, lambda kafka: kafka.get("partitions") or [])


async def _show(
    shell: CommandContext,
    options: WatchOptions,
    view: Callable[[Document], RenderableType],
    document: Callable[[Document], Any] = lambda kafka: kafka,
) -> None:
    async with shell.connect() as client:
        shown = partial(_if_configured, view)
        await show_or_watch(shell, options, partial(client.get, PATH), shown, document)


def _if_configured(view: Callable[[Document], RenderableType], kafka: Document) -> RenderableType:
    if kafka.get("configured"):
        return view(kafka)
    sentence = "Kafka is not configured: start Muster with --kafka or MUSTER_KAFKA_BOOTSTRAP."
    count = kafka.get("deadLetters")
    return Text(f"{sentence} {count} dead letters are left from before." if count else sentence)


def _status_view(kafka: Document) -> RenderableType:
    return sections(
        pairs(BROKERS, kafka),
        table_or(TOPICS, kafka.get("topics") or (), "No topic is configured or named by a wait."),
        table(CONSUMERS, kafka.get("ingest") or ()),
    )


def _lag_view(kafka: Document) -> RenderableType:
    return table_or(PARTITIONS, kafka.get("partitions") or (), "No partition is being read.")
