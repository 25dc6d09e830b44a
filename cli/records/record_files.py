"""`muster records import` and `export`: files of any size, in portions."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import urlencode

import typer
from rich.console import RenderableType
from rich.text import Text

from cli.shell.bulk import progress
from cli.shell.client import Document
from cli.shell.context import CommandContext, subcommand
from cli.shell.errors import InputError
from cli.shell.options import argument, option
from cli.shell.output import columns, first_rows, sections
from cli.shell.parsing import join_path, parse_pairs

PORTION_ROWS, PORTION_BYTES = 500, 256 * 1024
"""Of one request: a server takes bodies of a megabyte unless it is set otherwise."""
_SILENCE = 60.0
_COLLECTION = argument("The name of the collection.", metavar="COLLECTION")
_ERRORS = columns("row", "id", "field", "expected")


class FileFormat(StrEnum):
    NDJSON = "ndjson"
    CSV = "csv"


_TYPES = {FileFormat.NDJSON: "application/x-ndjson", FileFormat.CSV: "text/csv"}


class _Portion(NamedTuple):
    """Rows for one request."""

    body: bytes
    rows: int
    read: int
    """How much of the file has been read."""


def add_file_commands(app: typer.Typer) -> None:
    subcommand(
        app, "import",
        "muster records import orders orders.csv",
        "muster records import orders - --format ndjson < orders.ndjson",
    )(import_)  # fmt: skip
    subcommand(
        app, "export",
        "muster records export orders > orders.ndjson",
        "muster records export orders --format csv --output orders.csv --where status=open",
    )(export)  # fmt: skip


async def import_(
    shell: CommandContext,
    collection: str = _COLLECTION,
    file: str = argument("A file of NDJSON or CSV, or - for standard input.", metavar="FILE"),
    format_: FileFormat | None = option(
        "The form of the file, if its name does not say it.", "--format"
    ),
) -> None:
    """Create a record of each line; lines with an id change the record that has it.

    Lines that are refused are listed with their reasons, and keep no others from being saved.
    """
    chosen = format_ or _format_of(file)
    path = join_path("/api/collections", collection, "records", "import")
    total: dict[str, Any] = {"saved": 0, "failed": 0, "errors": []}
    size, before = _size(file), 0
    with (
        _opened(file) as raw,
        progress("importing", size or None, shown=not shell.as_json) as show,
    ):
        async with shell.connect() as client:
            for portion in _portions(raw, chosen):
                reply = await client.post(path, portion.body, {"Content-Type": _TYPES[chosen]})
                total["saved"] += reply["saved"]
                total["failed"] += reply["failed"]
                found = [{**one, "row": one["row"] + before} for one in reply["errors"]]
                total["errors"] += found
                before += portion.rows
                show(portion.read, max(size, portion.read))
    shell.print(total, _summary(total))
    if total["failed"]:
        raise typer.Exit(1)


async def export(
    shell: CommandContext,
    collection: str = _COLLECTION,
    format_: FileFormat = option("The form of the file.", "--format", default=FileFormat.NDJSON),
    where: list[str] | None = option(
        "Only records with this value: NAME=VALUE, or NAME.gte=VALUE.",
        metavar="NAME=VALUE",
    ),
    output: Path | None = option("The file to write, if not standard output."),
) -> None:
    """Write all records of a collection, each as it is when its turn comes."""
    query = urlencode([("format", format_.value), *parse_pairs(where or (), "condition")])
    path = f"{join_path('/api/collections', collection, 'records', 'export')}?{query}"
    written = 0
    with (
        nullcontext(sys.stdout.buffer) if output is None else output.open("wb") as file,
        progress("exporting", None, shown=output is not None) as show,
    ):
        async with shell.connect() as client, client.stream(path, {}, max_silence=_SILENCE) as got:
            async for chunk in got:
                file.write(chunk)
                written += len(chunk)
                show(written, written)
    if output is not None:
        shell.print({"bytes": written}, f"{output}: {written:,} bytes.")


def _format_of(file: str) -> FileFormat:
    ending = Path(file).suffix.lower()
    if ending == ".csv":
        return FileFormat.CSV
    if ending in {".ndjson", ".jsonl"}:
        return FileFormat.NDJSON
    raise InputError(f"{file} does not say its form: give --format ndjson or --format csv.")


def _size(file: str) -> int:
    return 0 if file == "-" or not Path(file).exists() else Path(file).stat().st_size


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        opened = Path(file).open("rb")  # noqa: SIM115  closed below
    except OSError as error:
        raise InputError(f"Cannot read {file}: {error.strerror}.") from error
    with opened:
        yield opened


def _portions(raw: BinaryIO, form: FileFormat) -> Iterator[_Portion]:
    lines = _csv_lines(raw) if form is FileFormat.CSV else (line for line in raw if line.strip())
    header = next(lines, b"") if form is FileFormat.CSV else b""
    body, rows, read = [header], 0, len(header)
    for line in lines:
        if rows and (rows == PORTION_ROWS or sum(map(len, body)) + len(line) > PORTION_BYTES):
            yield _Portion(b"".join(body), rows, read)
            body, rows = [header], 0
        body.append(line)
        rows += 1
        read += len(line)
    if rows:
        yield _Portion(b"".join(body), rows, read)


def _csv_lines(raw: BinaryIO) -> Iterator[bytes]:
    """Yield rows of CSV, which may have line breaks within quotes."""
    row = b""
    for line in raw:
        row += line
        if row.count(b'"') % 2 == 0:
            if row.strip():
                yield row
            row = b""
        elif len(row) > PORTION_BYTES:
            raise InputError("A quote in the file has no end: check it around its last quote.")
    if row:
        yield row


def _summary(total: Mapping[str, Any]) -> RenderableType:
    failed = total["failed"]
    lines = "line" if failed == 1 else "lines"
    done = Text(f"{total['saved']:,} records saved, {failed:,} {lines} refused.")
    errors: Sequence[Document] = total["errors"]
    return sections(done, first_rows(_ERRORS, errors)) if errors else done
