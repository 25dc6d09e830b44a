"""`muster paths`: where data paths lead."""

from typing import Any

import typer
from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from cli.records.sample_record import SampleOptions
from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.context import CommandContext, subcommand
from cli.shell.errors import InputError
from cli.shell.lazy import command_group
from cli.shell.options import argument, option, request_fields
from cli.shell.output import columns, table
from cli.shell.parsing import join_path
from core.records.field_tree import DEFAULT_TREE_DEPTH, MAX_TREE_DEPTH

PATH = "/control/data-paths"
COLLECTION = argument("Id or name of the collection that the paths begin at.", metavar="COLLECTION")
EXPRESSIONS = argument("Data paths such as order_id.customer_id.email.", metavar="PATH...")

app = command_group("muster paths validate order-lines order_id.customer_id.email")


def _leads_to(found: Document) -> str | Text:
    if not found["valid"]:
        return Text(found["errorMessage"], style="red")
    where = found.get("terminalCollectionName")
    kind = found.get("terminalFieldType") or "value"
    return f"{kind} of {where}" if where else "the result of a script"


VALIDATED = columns(("path", "expression"), ("valid", "valid"), ("leads to", _leads_to))
RESOLVED = columns(
    "path",
    ("value", "value", lambda value: "null" if value is None else fmt.one_line(value)),
    ("over", "over"),
)


@subcommand(
    app,
    "validate",
    "muster paths validate order-lines order_id.customer_id.email order_id.total",
)
async def validate(
    shell: CommandContext, collection: str = COLLECTION, expressions: list[str] = EXPRESSIONS
) -> None:
    """Check data paths against the collections that they lead through.

    The exit code is 1 if a path is not valid.
    """
    body = {"rootCollectionId": collection, "expressions": expressions}
    found = await shell.call("post", join_path(PATH, "validate"), body=body)
    shell.print(found, table(VALIDATED, found["items"]))
    if not found["valid"]:
        raise typer.Exit(1)


@subcommand(
    app,
    "resolve",
    "muster paths resolve order-lines order_id.customer_id.email --record l1 --provenance",
    """muster paths resolve order-lines order_id.total -d '{"order_id": "o1"}'""",
)
async def resolve(
    sample: SampleOptions,
    shell: CommandContext,
    collection: str = COLLECTION,
    expressions: list[str] = EXPRESSIONS,
    provenance: bool = option("Name the records on the way.", "--provenance", default=False),
) -> None:
    """Show what data paths of a record lead to; null where a record on the way is missing."""
    if (sample.record is None) == (sample.data is None):
        raise InputError("Give --record with the id of a record, or --data with a record.")
    body = {
        "rootCollectionId": collection,
        "expressions": expressions,
        "provenance": provenance,
        **request_fields(sample),
    }
    found = await shell.call("post", join_path(PATH, "resolve"), body=body)
    steps = found.get("provenance") or {}
    rows = [
        {"path": path, "value": value, "over": _steps(steps.get(path, []))}
        for path, value in found["values"].items()
    ]
    shell.print(found, table(RESOLVED if provenance else RESOLVED[:2], rows))


@subcommand(app, "tree", "muster paths tree order-lines --depth 3")
async def tree(
    shell: CommandContext,
    collection: str = COLLECTION,
    depth: int = option(
        "Levels of relationships.", default=DEFAULT_TREE_DEPTH, min=1, max=MAX_TREE_DEPTH
    ),
) -> None:
    """Show the fields that data paths from a collection can read."""
    path = join_path("/control/collections", collection, "data-paths")
    found = await shell.call("get", path, params={"depth": depth})
    shell.print(found, _tree(found))


def _steps(steps: list[dict[str, Any]]) -> str:
    return " → ".join(f"{one['collection']}/{one['recordId']} v{one['version']}" for one in steps)


def _tree(found: Document) -> RenderableType:
    root = Tree(Text(found["collection"], style="bold"))
    _branch(root, found["fields"])
    root.add(fmt.dim(f"and of every record: {', '.join(found['systemFields'])}"))
    if found["isTruncated"]:
        root.add(fmt.dim("the tree is too large: relationships that are not open have fields, too"))
    return root


def _branch(parent: Tree, fields: list[dict[str, Any]]) -> None:
    for one in fields:
        target = f" → {one['targetCollection']}" if one.get("targetCollection") else ""
        branch = parent.add(Text(f"{one['name']}  ").append(f"{one['type']}{target}", style="dim"))
        _branch(branch, one.get("children") or [])
