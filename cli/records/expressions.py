"""`muster expressions`: conditions and formulas, tried before they are used."""

import json

import typer
from rich.text import Text

from cli.records.sample_record import SampleOptions
from cli.shell.client import Document
from cli.shell.context import CommandContext, subcommand
from cli.shell.json_input import read_object
from cli.shell.lazy import command_group
from cli.shell.options import argument, option, request_fields

PATH = "/control/expressions"
EXPRESSION = argument("As in \"status == 'open' && total > 100\".", metavar="EXPRESSION")

app = command_group("muster expressions validate \"status == 'open' && total > 100\"")


@subcommand(
    app,
    "validate",
    "muster expressions validate \"status == 'open' && total > 100\" --collection orders",
)
async def validate(
    shell: CommandContext,
    expression: str = EXPRESSION,
    collection: str | None = option("The fields have to exist in this collection."),
) -> None:
    """Check an expression: its syntax, what it may cost, and the fields that it reads.

    The exit code is 1 if it is not valid.
    """
    body = {"expression": expression}
    if collection is not None:
        body["collectionId"] = collection
    found = await shell.call("post", f"{PATH}/validate", body=body)
    shell.print(found, _validated(expression, found))
    if not found["valid"]:
        raise typer.Exit(1)


@subcommand(
    app,
    "evaluate",
    """muster expressions evaluate "total * 2 > 100" -d '{"total": 60}'""",
    'muster expressions evaluate "status != previous.status" --collection orders --record o1'
    """ --values '{"previous": {"status": "new"}}'""",
)
async def evaluate(
    sample: SampleOptions,
    shell: CommandContext,
    expression: str = EXPRESSION,
    collection: str | None = option("The collection of --record.", api="collectionId"),
    values: str | None = option(
        "What the names beside the record stand for: a JSON object, @file, or -."
    ),
) -> None:
    """Print the value of an expression on a record, as JSON."""
    body = {"expression": expression, **request_fields(sample)}
    if collection is not None:
        body["collectionId"] = collection
    if values is not None:
        body["values"] = read_object(values)
    found = await shell.call("post", f"{PATH}/evaluate", body=body)
    shell.print(found, json.dumps(found["value"], ensure_ascii=False))


def _validated(expression: str, found: Document) -> Text:
    if found["valid"]:
        read = ", ".join([*found["fields"], *found["names"]]) or "nothing"
        return Text("valid", style="green").append(f", reads {read}", style="default")
    line = Text(found["error"], style="red")
    if (at := found.get("position")) is not None and "\n" not in expression:
        line.append(f"\n{expression}\n{' ' * at}^", style="default")
    return line
