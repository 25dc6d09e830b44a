"""`muster collections`: definitions of records, as files that are applied."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType

from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.context import CommandContext, print_json, subcommand
from cli.shell.errors import InputError
from cli.shell.json_input import read_object
from cli.shell.options import argument, option
from cli.shell.output import columns, first_rows, pairs, sections, table
from cli.shell.problems import ProblemResponseError
from cli.shell.resource import ApiResource, CursorOption, LimitOption, print_page
from core.records.collection import CollectionStatus, is_collection_name

PATH = "/control/collections"
_STATUS = fmt.styled({"ACTIVE": "green", "ARCHIVED": "yellow"})
_SEVERITY = fmt.styled({"breaking": "bold red", "notice": "cyan"})
_FILE = option(
    "A JSON file with name and fields, or - for standard input.", "--file", "-f", required=True
)
_SENT = ("name", "description", "fields", "note")
_SHOWN_APART = {"name", "type", "description"}


def _settings(field: Document) -> str:
    """Show what a field has beside name and type: `required, max 100`."""
    return ", ".join(
        name if value is True else f"{name} {_brief(value)}"
        for name, value in field.items()
        if name not in _SHOWN_APART
    )


def _brief(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"


collections = ApiResource(
    "collection",
    "collections",
    PATH,
    argument=argument("The collection's name or id.", metavar="COLLECTION"),
    example="orders",
    listing=columns(
        "name", ("fields", "fieldCount", fmt.number), ("version", "version", fmt.number),
        ("status", "status", _STATUS), "description", ("changed", "updatedAt", fmt.moment),
    ),
    details=columns(
        ("collection", "name"), "description", ("status", "status", _STATUS), "version", "id",
        ("index", "indexBuilding", fmt.either("is being built", "")), *fmt.TIMES,
    ),
    id_pattern="col_[0-9A-Z]{13}",
    is_code=is_collection_name,
)  # fmt: skip
app = collections.app
_FIELDS = columns("name", "type", ("settings", _settings), "description")
_VERSIONS = columns(
    ("version", "version", fmt.number), ("made", "createdAt", fmt.moment), ("by", "createdBy"),
    "note",
)  # fmt: skip
_CHANGES = columns("field", ("severity", "severity", _SEVERITY), ("what follows", "sentence"))
_MISFITS = columns(("record", "recordId"), "field", "expected")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionFilters:
    status: CollectionStatus | None = option(
        "Only collections of this status.", case_sensitive=False
    )


collections.add_list("List collections, page by page.", filters=CollectionFilters)


@subcommand(app, "show", "muster collections show orders", "muster collections show orders -v 1")
async def show(
    shell: CommandContext,
    name: str = collections.argument,
    version: int | None = option("Show this version.", "--version", "-v", min=1),
) -> None:
    """Show one collection with its fields, now or in an earlier version."""
    rest = () if version is None else ("versions", str(version))
    found = await collections.call(shell, "get", name, *rest)
    shell.print(found, _view({"name": name, **found}))


@subcommand(app, "apply", "muster collections apply -f orders.json")
async def apply(
    shell: CommandContext,
    file: str = _FILE,
    note: str | None = option("Why the collection changes; kept with the version."),
) -> None:
    """Create the collection of a file, or change it to what the file says.

    A file that has a version, as `export` writes it, changes that version only: if someone has
    changed the collection since, nothing happens.
    """
    body = _read(file) | ({} if note is None else {"note": note})
    path = collections.path_of(body["name"])
    async with shell.connect() as client:
        stored = await _find(client.get(path))
        sent = {name: body[name] for name in _SENT if name in body}
        if stored is None:
            applied = await client.post(PATH, sent)
        else:
            version = body.get("version", stored["version"])
            applied = await client.put(path, sent, {"If-Match": f'"{version}"'})
    is_same = stored is not None and stored["version"] == applied["version"]
    done = "its fields are as before" if is_same else f"version {applied['version']}"
    shell.print(applied, f"Collection {applied['name']}: {done}.")


@subcommand(app, "export", "muster collections export orders > orders.json")
async def export(shell: CommandContext, name: str = collections.argument) -> None:
    """Print a collection as a file for `apply`."""
    found = await collections.call(shell, "get", name)
    print_json({part: found[part] for part in ("name", "description", "version", "fields")})


@subcommand(app, "preview", "muster collections preview -f orders.json")
async def preview(shell: CommandContext, file: str = _FILE) -> None:
    """Say what a change would break, and change nothing.

    Stored records are checked, too; of a large collection as many as there is time for.
    """
    body = _read(file)
    sent = {name: body[name] for name in _SENT if name in body}
    found = await collections.call(shell, "post", body["name"], "preview", body=sent)
    shell.print(found, _preview(found))


@subcommand(app, "versions", "muster collections versions orders")
async def versions(
    shell: CommandContext,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
    name: str = collections.argument,
) -> None:
    """List the versions of a collection, newest first."""
    params = {"limit": limit, "cursor": cursor}
    found = await collections.call(shell, "get", name, "versions", params=params)
    print_page(found, _VERSIONS, "No versions.", shell)


collections.add_remove(
    "archive",
    "Archive a collection: its records can be read, and not written.",
    "collection",
    "archived",
)
collections.add_verb("activate", "Activate an archived collection.", "Collection {name} is active.")


def _read(file: str) -> dict[str, Any]:
    body = read_object("-" if file == "-" else f"@{file}")
    if not isinstance(body.get("name"), str):
        raise InputError(f"{file} names no collection: it needs name and fields.")
    return body


async def _find(reading: Any) -> Mapping[str, Any] | None:
    """Return the document, or None where the server answers 404."""
    try:
        found: Mapping[str, Any] = await reading
    except ProblemResponseError as problem:
        if problem.status != 404:
            raise
        return None
    return found


def _view(found: Document) -> RenderableType:
    return sections(pairs(collections.details, found), table(_FIELDS, found["fields"]))


def _preview(found: Document) -> RenderableType:
    if not found["changes"]:
        return fmt.dim("Nothing would change.")
    checked, misfits = found["recordsChecked"], found["misfits"]
    scope = "all" if found["complete"] else "the first"
    told = fmt.dim(f"{misfits:,} of {scope} {checked:,} records do not fit.")
    parts: list[RenderableType] = [table(_CHANGES, found["changes"]), told]
    return sections(*parts, *([first_rows(_MISFITS, found["examples"])] if misfits else []))
