"""Event types as Rich shows them."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cli.shell.tables import Document, plain_table
from cli.waits.views import local_time, pairs_table

VERSION_STYLES = {"FINALISING": "cyan", "CURRENT": "green", "DEPRECATED": "yellow"}
_TYPE_STYLES = {"CURRENT": "green", "ARCHIVED": "yellow"}


def event_types_view(items: Sequence[Document]) -> RenderableType:
    """One line for each event type."""
    if not items:
        return Text("No event types.", style="dim")
    table = plain_table("code", "name", "status", "versions", "unfit events")
    for item in items:
        table.add_row(
            Text(str(item.get("code"))),
            Text(str(item.get("name"))),
            _status(item),
            _versions(item),
            str(item.get("validation", "")),
        )
    return table


def event_type_view(found: Document) -> RenderableType:
    """One event type with its versions."""
    head = pairs_table(
        [
            ("event type", Text(str(found.get("code")))),
            ("name", Text(str(found.get("name")))),
            ("description", Text(str(found.get("description") or ""))),
            ("status", _status(found)),
            ("unfit events", str(found.get("validation", ""))),
            ("scope", "of one client each" if found.get("clientScoped") else ""),
            ("id", Text(str(found.get("id")))),
            ("registered", local_time(found.get("createdAt"))),
            ("changed", local_time(found.get("updatedAt"))),
        ]
    )
    versions = found.get("specVersions") or ()
    if not versions:
        return Group(head, Text(""), Text("It has no version, so any event fits.", style="dim"))
    table = plain_table("version", "status", "schema", "payloads", "changed")
    for one in versions:
        status = str(one.get("status"))
        table.add_row(
            Text(str(one.get("version"))),
            Text(status, style=VERSION_STYLES.get(status, "")),
            str(one.get("schemaType")),
            Text(str(one.get("mimeType"))),
            local_time(one.get("updatedAt")),
        )
    return Group(head, Text(""), table)


def _status(item: Document) -> Text:
    status = str(item.get("status"))
    return Text(status, style=_TYPE_STYLES.get(status, ""))


def _versions(item: Document) -> Text:
    line = Text()
    for one in item.get("specVersions") or ():
        line.append(" " if line else "")
        line.append(str(one["version"]), style=VERSION_STYLES.get(str(one["status"]), ""))
    return line
