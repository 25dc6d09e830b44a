"""Records as lines of files: NDJSON, and CSV with a column for each field."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from core.records.collection import SYSTEM_FIELDS, CollectionDefinition
from core.records.field import FieldDefinition, FieldType
from core.shared.errors import InvalidError
from core.shared.json_limits import MAX_DEPTH, is_deeper

MAX_COLUMNS = 1_000
MAX_LINES = 20_000
"""The most lines of one request: a body of tiny ones would keep it busy for minutes."""
SYSTEM_COLUMNS = ("version", "createdAt", "updatedAt", "createdBy", "updatedBy")
_T = FieldType
_AS_JSON = frozenset(
    {
        _T.JSON, _T.ARRAY, _T.MULTI_PICKLIST, _T.GEOLOCATION, _T.BOOLEAN, _T.INTEGER, _T.LONG,
        _T.DOUBLE, _T.CURRENCY, _T.PERCENT,
    }
)  # fmt: skip
# A spreadsheet would run a text that begins so as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class FileRow(NamedTuple):
    """A row of a file: its fields, or what is wrong with it."""

    number: int
    """From 1; the header of a CSV file is not counted."""
    fields: Mapping[str, Any]
    problem: str | None = None


def check_lines(raw: bytes) -> None:
    """Check that a file can be imported by one request, before any of its records is saved.

    Raises:
        InvalidError: It has too many lines.
    """
    count = raw.count(b"\n") + 1
    if count > MAX_LINES:
        expected = f"at most {MAX_LINES:,} lines; it has {count:,}: send it in portions"
        raise InvalidError("body", expected)


def read_ndjson(raw: bytes) -> Iterator[FileRow]:
    """Read a JSON object from each line that is not empty."""
    lines = (line for line in raw.split(b"\n") if line.strip())
    for number, line in enumerate(lines, 1):
        try:
            found = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            yield FileRow(number, {}, f"a JSON object: {error}")
            continue
        if not isinstance(found, dict):
            yield FileRow(number, {}, "a JSON object")
        elif is_deeper(found, MAX_DEPTH):
            yield FileRow(number, {}, f"at most {MAX_DEPTH} levels")
        else:
            yield FileRow(number, found)


def read_csv(raw: bytes, definition: CollectionDefinition) -> Iterator[FileRow]:
    """Read rows of a CSV file whose first line names the fields; an empty cell is no value.

    Raises:
        InvalidError: It is not UTF-8, or its header is not valid.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidError("body", "CSV in UTF-8") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
    except csv.Error as error:
        raise InvalidError("header", f"the names of fields: {error}") from None
    if not header or len(header) > MAX_COLUMNS or len(set(header)) < len(header):
        raise InvalidError("header", f"up to {MAX_COLUMNS:,} names of fields, each once")
    number = 0
    while True:
        number += 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield FileRow(number, {}, f"a row of CSV: {error}")
            continue
        if cells is None:
            return
        if not cells:
            number -= 1
        elif len(cells) != len(header):
            yield FileRow(number, {}, f"{len(header)} cells; there are {len(cells)}")
        else:
            named = zip(header, cells, strict=True)
            by_name = definition.by_name
            yield FileRow(
                number,
                {name: _value(by_name.get(name), cell) for name, cell in named if cell != ""},
            )


def _value(field: FieldDefinition | None, cell: str) -> Any:
    """Return the value of a cell as JSON where the field's type says so, else as text."""
    if field is None or field.type not in _AS_JSON:
        return cell[1:] if cell.startswith("'") and cell[1:2] in _FORMULA_STARTS else cell
    try:
        return msgspec.json.decode(cell)
    except (msgspec.DecodeError, RecursionError):
        return cell


def csv_header(definition: CollectionDefinition) -> bytes:
    return _line(["id", *definition.by_name, *SYSTEM_COLUMNS])


def csv_line(definition: CollectionDefinition, document: Mapping[str, Any]) -> bytes:
    names = ("id", *definition.by_name, *SYSTEM_COLUMNS)
    return _line([_cell(document.get(name)) for name in names])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return msgspec.json.encode(value).decode()
    return f"'{value}" if value.startswith(_FORMULA_STARTS) else value


def _line(cells: Sequence[str]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().encode()


def operation_of(row: FileRow) -> tuple[str | None, dict[str, Any]]:
    """Return the id of a row, if it has one, and its other fields."""
    fields = {name: value for name, value in row.fields.items() if name not in SYSTEM_FIELDS}
    given = row.fields.get("id")
    return (None if given is None else str(given)), fields
