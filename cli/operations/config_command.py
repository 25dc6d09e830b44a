"""`muster config`: every setting, its value and its source."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from cli.shell.context import JsonFlag, command, out, print_json
from cli.shell.errors import CommandError
from core.shared.errors import InvalidError
from settings.table import SettingRow, list_settings


@command
async def config(as_json: JsonFlag = False) -> None:
    """Show every setting, its value and where it comes from; secrets stay hidden."""
    try:
        rows = list_settings()
    except InvalidError as error:
        raise CommandError(f"{error}.") from error
    if as_json:
        print_json([row_document(row) for row in rows])
    else:
        out.print(settings_view(rows))


def settings_view(rows: Sequence[SettingRow]) -> Table:
    """One line for each setting; what was changed stands out."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("setting", "value", "source", "meaning"):
        table.add_column(title, overflow="fold")
    for row in rows:
        style = "" if row.source == "default" else "bold cyan"
        table.add_row(
            Text(row.variable, style=style),
            Text(str(row.value), style=style),
            Text(row.source, style=style or "dim"),
            Text(row.description, style="dim"),
        )
    return table


def row_document(row: SettingRow) -> dict[str, object]:
    """A setting for scripts."""
    return {
        "name": row.name,
        "variable": row.variable,
        "value": row.value,
        "source": row.source,
        "description": row.description,
    }
