"""Kafka's state and dead letters as Rich shows them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from cli.shell.durations import format_duration
from cli.shell.tables import format_count, plain_table
from cli.waits.views import local_time, pairs_table

Document = Mapping[str, Any]
STATE_STYLES = {"followed": "green", "missing": "yellow", "not_yours": "red", "unknown": "yellow"}
_READER = ("partitions", "records", "batches", "inFlight", "commits", "rebalances", "pauses")
_WORDS = {"inFlight": "in flight"}


def kafka_view(kafka: Document) -> RenderableType:
    """Brokers above, then topics, consumers and the relay."""
    if not kafka.get("configured"):
        return _absent(kafka)
    parts = [_head(kafka), Text(""), _topics(kafka.get("topics") or ()), Text("")]
    return Group(*parts, _readers(kafka.get("ingest") or ()))


def lag_view(kafka: Document) -> RenderableType:
    """One line for each partition."""
    if not kafka.get("configured"):
        return _absent(kafka)
    rows = kafka.get("partitions") or ()
    if not rows:
        return Text("No partition is being read.", style="dim")
    table = plain_table("topic", "partition", "stored", "end", "lag", "read by", right=(1, 2, 3, 4))
    for row in rows:
        lag = row.get("lag")
        table.add_row(
            Text(str(row["topic"])),
            str(row["partition"]),
            format_count(row.get("stored")),
            format_count(row.get("end")),
            Text(format_count(lag), style="yellow" if lag else ""),
            Text(str(row.get("actor", ""))),
        )
    return table


def dead_letters_view(letters: Sequence[Document]) -> RenderableType:
    """One line for each dead letter."""
    if not letters:
        return Text("No dead letters.", style="dim")
    table = plain_table("id", "topic", "place", "attempts", "failed", "error", right=(0, 3))
    for letter in letters:
        handled = letter.get("redrivenAt")
        when = f"handled {local_time(handled)}" if handled else local_time(letter.get("failedAt"))
        table.add_row(
            str(letter["letterId"]),
            Text(str(letter["topic"])),
            _place(letter),
            str(letter["attempts"]),
            when,
            Text(str(letter["error"]), style="green" if handled else "red"),
        )
    return table


def dead_letter_view(letter: Document) -> RenderableType:
    """One dead letter with everything that was on the topic."""
    headers = [f"{one['name']}: {_decoded_text(one['value'], one)}" for one in letter["headers"]]
    head = pairs_table(
        [
            ("dead letter", str(letter["letterId"])),
            ("topic", Text(str(letter["topic"]))),
            ("partition/offset", _place(letter)),
            ("error", Text(str(letter["error"]), style="red")),
            ("attempts", str(letter["attempts"])),
            ("failed", local_time(letter.get("failedAt"))),
            ("handled", local_time(letter.get("redrivenAt"))),
            ("key", Text(_decoded_text(letter.get("key"), {"encoding": letter["keyEncoding"]}))),
            ("headers", Text("\n".join(headers))),
            ("size", "" if letter.get("size") is None else f"{letter['size']:,} bytes"),
        ]
    )
    match letter["dataEncoding"]:
        case "none":
            data = Text("A tombstone: it has no data.", style="dim")
        case "base64":
            data = Text(f"{letter['data']}  (base64: no JSON)")
        case _:
            data = Text(json.dumps(letter.get("data"), indent=2, ensure_ascii=False))
    return Group(head, Text("data", style="dim"), data)


def redrive_line(summary: Document) -> Text:
    """What a redrive came to, in one line."""
    verdicts = ", ".join(f"{name} {count}" for name, count in summary["verdicts"].items())
    line = Text(f"{summary['handled']} handled", style="green" if summary["handled"] else "")
    line.append(f" ({verdicts})" if verdicts else "", style="default")
    line.append(f", {summary['failed']} failed again", style="red" if summary["failed"] else "")
    if summary["alreadyHandled"]:
        line.append(f", {summary['alreadyHandled']} handled before", style="default")
    return line


def failures_view(failures: Sequence[Document], most: int = 20) -> RenderableType:
    """The first letters that failed again, with why."""
    table = plain_table("id", "topic", "place", "error", right=(0,))
    for one in failures[:most]:
        error = Text(str(one["error"]), style="red")
        table.add_row(str(one["letterId"]), Text(str(one["topic"])), _place(one), error)
    rest = len(failures) - most
    return Group(table, Text(f"… and {rest} more", style="dim")) if rest > 0 else table


def _absent(kafka: Document) -> RenderableType:
    text = "Kafka is not configured: start Muster with --kafka or MUSTER_KAFKA_BOOTSTRAP."
    letters = kafka.get("deadLetters")
    return Text(f"{text} {letters} dead letters are left from before." if letters else text)


def _head(kafka: Document) -> RenderableType:
    is_up = kafka.get("connected")
    partitions = kafka.get("partitions") or ()
    behind = sum(row.get("lag") or 0 for row in partitions)
    relay = kafka.get("relay") or {}
    return pairs_table(
        [
            ("brokers", Text(f"{kafka['bootstrap']}  ({kafka['securityProtocol']})")),
            (
                "state",
                Text("connected", style="green")
                if is_up
                else Text(_troubles(kafka) or "not connected", style="bold red"),
            ),
            ("group", Text(f"{kafka['group']}, as tenant {kafka['tenant']}")),
            ("lag", f"{behind:,} records on {len(partitions)} partitions"),
            ("dead letters", f"{kafka.get('deadLetters', 0):,}"),
            ("published", _relay_words(relay) if relay else ""),
        ]
    )


def _troubles(kafka: Document) -> str:
    actors = [*(kafka.get("ingest") or ()), *([kafka["relay"]] if kafka.get("relay") else [])]
    return "; ".join(f"{one['name']}: {one['error']}" for one in actors if one.get("error"))


def _relay_words(relay: Document) -> str:
    words = f"{relay['published']:,}, {relay['backlog']:,} to go"
    if relay["backlog"]:
        words += f" (the oldest for {format_duration(relay['oldestSeconds'])})"
    told = {
        "heldTopics": "topics take nothing",
        "refused": "events refused",
        "vanished": "vanished",
    }
    return ", ".join([words, *(f"{relay[n]:,} {what}" for n, what in told.items() if relay.get(n))])


def _topics(topics: Sequence[Document]) -> RenderableType:
    if not topics:
        return Text("No topic is configured, and no wait names one.", style="dim")
    table = plain_table("topic", "state", "partitions", "lag", "dead letters", right=(2, 3, 4))
    for topic in topics:
        state = str(topic["state"])
        table.add_row(
            Text(str(topic["topic"])),
            Text(state, style=STATE_STYLES.get(state, "")),
            format_count(topic["partitions"]),
            format_count(topic["lag"]),
            format_count(topic["deadLetters"]),
        )
    return table


def _readers(readers: Sequence[Document]) -> RenderableType:
    titles = ("consumer", "state", "restarts", *(_WORDS.get(name, name) for name in _READER))
    table = plain_table(*titles, right=range(2, len(titles)))
    for reader in readers:
        is_up = reader["connected"]
        table.add_row(
            Text(str(reader["name"])),
            Text("up" if is_up else "down", style="green" if is_up else "bold red"),
            str(reader["restarts"]),
            *(format_count(reader.get(name)) for name in _READER),
        )
    return table


def _place(letter: Document) -> str:
    return f"{letter['partition']}/{letter['offset']}"


def _decoded_text(value: Any, encoded: Document) -> str:
    if value is None:
        return ""
    return f"{value}  (base64)" if encoded["encoding"] == "base64" else str(value)
