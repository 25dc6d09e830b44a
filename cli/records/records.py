"""`muster records`: read and write the records of a collection."""

import json
from typing import Any

from cli.records.record_files import add_file_commands
from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.context import CommandContext, YesOption, confirm, subcommand
from cli.shell.json_input import read_object
from cli.shell.lazy import command_group
from cli.shell.options import argument, option
from cli.shell.output import Columns, columns, pairs
from cli.shell.parsing import join_path, parse_pairs
from cli.shell.resource import CursorOption, LimitOption, print_page

_COLLECTION = argument("The name of the collection.", metavar="COLLECTION")
_RECORD = argument("The id of the record.", metavar="ID")
_FIELDS = argument("A JSON object; @FILE or - reads one.", metavar="FIELDS")
_SYSTEM = ("id", "version", "createdAt", "updatedAt", "createdBy", "updatedBy")
_MAX_COLUMNS = 6
_CHANGES = columns(
    ("version", "version", fmt.number), ("change", "changeType"), ("when", "at", fmt.moment),
    ("by", "user"), ("fields", "changedFields", lambda names: ", ".join(names or ())),
)  # fmt: skip

app = command_group("muster records list orders")


def path_of(collection: str, *rest: str) -> str:
    return join_path("/api/collections", collection, "records", *rest)


def _missing(collection: str, record_id: str) -> str:
    return (
        f"There is no record {record_id} in {collection}: see `muster records list {collection}`."
    )


def _value(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _columns(items: list[Document]) -> Columns:
    """Show the first fields that records of a page have."""
    names = list(dict.fromkeys(name for item in items for name in item if name not in _SYSTEM))
    shown = [(name, name, _value) for name in names[:_MAX_COLUMNS]]
    return columns(
        "id", *shown, ("version", "version", fmt.number), ("changed", "updatedAt", fmt.moment)
    )


def _details(record: Document) -> Columns:
    fields = [(name, name, _value) for name in record if name not in _SYSTEM]
    made = (("created", "createdAt", fmt.moment), ("created by", "createdBy"))
    changed = (("changed", "updatedAt", fmt.moment), ("changed by", "updatedBy"))
    return columns(("record", "id"), *fields, "version", *made, *changed)


@subcommand(
    app,
    "list",
    "muster records list orders",
    "muster records list orders --where status=open --where total.gte=100 --sort=-total",
)
async def list_(
    shell: CommandContext,
    collection: str = _COLLECTION,
    where: list[str] | None = option(
        "Only records with this value: NAME=VALUE, or NAME.gte=VALUE with one of eq, ne, gt, gte, "
        "lt, lte, in.",
        metavar="NAME=VALUE",
    ),
    sort: str | None = option("Sort by id or an indexed field; from the end with - before it."),
    limit: LimitOption = 100,
    cursor: CursorOption = None,
) -> None:
    """List records, page by page."""
    conditions = dict(parse_pairs(where or (), "condition"))
    params = {"limit": limit, "cursor": cursor, "sort": sort, **conditions}
    missing = f"There is no collection {collection}: see `muster collections list`."
    page = await shell.call("get", path_of(collection), params=params, missing=missing)
    print_page(page, _columns(page["items"]), "No records.", shell)


@subcommand(app, "show", "muster records show orders o1", "muster records show orders o1 --as-of 3")
async def show(
    shell: CommandContext,
    collection: str = _COLLECTION,
    record_id: str = _RECORD,
    as_of: int | None = option("Show this version.", min=1),
) -> None:
    """Show one record, as it is or as of a version."""
    path, missing = path_of(collection, record_id), _missing(collection, record_id)
    found = await shell.call("get", path, params={"asOf": as_of}, missing=missing)
    shell.print(found, pairs(_details(found), found))


@subcommand(app, "create", """muster records create orders '{"name": "Jo", "total": 12.5}'""")
async def create(
    shell: CommandContext, collection: str = _COLLECTION, fields: str = _FIELDS
) -> None:
    """Create a record; a field `id` names it."""
    missing = f"There is no collection {collection}: see `muster collections list`."
    made = await shell.call("post", path_of(collection), body=read_object(fields), missing=missing)
    shell.print(made, f"Record {made['id']} of {collection} is created.")


@subcommand(app, "set", """muster records set orders o1 '{"status": "paid"}'""")
async def set_(
    shell: CommandContext,
    collection: str = _COLLECTION,
    record_id: str = _RECORD,
    fields: str = _FIELDS,
    version: int | None = option("Change this version only.", min=1),
    replace: bool = option("Remove the fields that are not given.", "--replace", default=False),
) -> None:
    """Change fields of a record; null removes a value."""
    path, missing = path_of(collection, record_id), _missing(collection, record_id)
    headers = None if version is None else {"If-Match": f'"{version}"'}
    verb = "put" if replace else "patch"
    body = read_object(fields)
    changed = await shell.call(verb, path, body=body, headers=headers, missing=missing)
    shell.print(changed, f"Record {record_id} of {collection}: version {changed['version']}.")


@subcommand(app, "delete", "muster records delete orders o1 --yes")
async def delete(
    shell: CommandContext,
    collection: str = _COLLECTION,
    record_id: str = _RECORD,
    yes: YesOption = False,
) -> None:
    """Delete a record and its details; its history stays."""
    confirm(f"Delete record {record_id} of {collection}?", yes=yes)
    path, missing = path_of(collection, record_id), _missing(collection, record_id)
    await shell.call("delete", path, missing=missing)
    shell.print({"id": record_id}, f"Record {record_id} of {collection} is deleted.")


@subcommand(app, "history", "muster records history orders o1")
async def history(
    shell: CommandContext,
    collection: str = _COLLECTION,
    record_id: str = _RECORD,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """List the versions of a record, the latest first."""
    path, missing = path_of(collection, record_id, "history"), _missing(collection, record_id)
    params = {"limit": limit, "cursor": cursor}
    page = await shell.call("get", path, params=params, missing=missing)
    print_page(page, _CHANGES, "No versions are kept.", shell)


add_file_commands(app)
