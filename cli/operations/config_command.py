"""`muster config`: every setting, its value and its source."""

from dataclasses import asdict

from rich.text import Text

from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.context import JsonFlag, print_result, single_command
from cli.shell.output import columns, table
from settings.table import list_settings


def _cell(field: str, style: str = "") -> fmt.Format:
    """Show a field so that settings which were changed stand out."""

    def render(row: Document) -> Text:
        return Text(str(row[field]), style if row["source"] == "default" else "bold cyan")

    return render


SETTINGS = columns(
    ("setting", _cell("variable")),
    ("value", _cell("value")),
    ("source", _cell("source", "dim")),
    ("meaning", "description", fmt.dim),
)


@single_command("muster config")
async def config(as_json: JsonFlag = False) -> None:
    """Show every setting, its value and where it comes from; secrets stay hidden."""
    rows = [asdict(row) for row in list_settings()]
    print_result(rows, table(SETTINGS, rows), as_json=as_json)
