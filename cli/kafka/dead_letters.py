"""`muster kafka dead-letters`: messages that could not be handled."""

from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.options import argument, option
from cli.shell.output import columns, pairs
from cli.shell.resource import ApiResource


def partition_offset(dead_letter: Document) -> str:
    return f"{dead_letter['partition']}/{dead_letter['offset']}"


def _failed(dead_letter: Document) -> str:
    handled = dead_letter.get("redrivenAt")
    return f"handled {fmt.moment(handled)}" if handled else fmt.moment(dead_letter.get("failedAt"))


def _error(dead_letter: Document) -> Text:
    handled = dead_letter.get("redrivenAt")
    return Text(str(dead_letter["error"]), style="green" if handled else "red")


def _decoded(value: Any, encoding: str) -> str:
    if value is None:
        return ""
    return f"{value}  (base64)" if encoding == "base64" else str(value)


def _headers(headers: Any) -> str:
    lines = [f"{one['name']}: {_decoded(one['value'], one['encoding'])}" for one in headers]
    return "\n".join(lines)


dead_letters = ApiResource(
    "dead letter",
    "kafka dead-letters",
    "/api/dead-letters",
    argument=argument("Id of the dead letter.", metavar="ID", min=1),
    id_type=int,
    example="7",
    listing=columns(
        ("id", "letterId", fmt.RightAligned(fmt.text)),
        "topic",
        ("partition/offset", partition_offset),
        ("attempts", "attempts", fmt.number),
        ("failed", _failed),
        ("error", _error),
    ),
    details=columns(
        ("dead letter", "letterId"),
        "topic",
        ("partition/offset", partition_offset),
        ("error", "error", fmt.error),
        "attempts",
        ("failed", "failedAt", fmt.moment),
        ("handled", "redrivenAt", fmt.moment),
        ("key", lambda one: _decoded(one.get("key"), one["keyEncoding"])),
        ("headers", "headers", _headers),
        ("bytes", "size", fmt.number),
    ),
)
app = dead_letters.app


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilters:
    topic: str | None = option("Only dead letters of this topic.")
    error: str | None = option("Only dead letters whose error contains this text.")
    redriven: bool = option(
        "Those that were handled later, not the open ones.", "--redriven", default=False
    )


def _view(dead_letter: Document) -> RenderableType:
    missing = "A tombstone: the message has no data."
    data = fmt.payload(dead_letter.get("data"), dead_letter["dataEncoding"], missing)
    return Group(pairs(dead_letters.details, dead_letter), fmt.dim("data"), data)


dead_letters.add_list(
    "List dead letters, newest first, page by page.",
    "muster kafka dead-letters list --error 'not the JSON'",
    filters=DeadLetterFilters,
    limit=50,
)
dead_letters.add_show("Show one dead letter: its error, key, headers and data.", _view)
dead_letters.add_remove(
    "delete", "Delete one dead letter: it can no longer be redriven.", "letterId", "deleted"
)
