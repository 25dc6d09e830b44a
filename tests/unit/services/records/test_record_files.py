"""Records as lines of NDJSON and CSV."""

import pytest

from core.records.collection import CollectionDefinition
from core.records.field import FieldDefinition, FieldType
from core.shared.errors import InvalidError
from services.records.record_files import (
    MAX_LINES,
    FileRow,
    check_lines,
    csv_header,
    csv_line,
    operation_of,
    read_csv,
    read_ndjson,
)

ORDERS = CollectionDefinition(
    name="orders",
    fields=(
        FieldDefinition(name="name", type=FieldType.STRING),
        FieldDefinition(name="total", type=FieldType.CURRENCY),
        FieldDefinition(name="tags", type=FieldType.MULTI_PICKLIST),
    ),
)


def test_lines_of_json() -> None:
    deep = b"[" * 100 + b"]" * 100
    raw = b'{"name": "Jo"}\n\n[1]\nnothing\n{"a": ' + deep + b"}\r\n\xff\n"
    found = list(read_ndjson(raw))
    assert found[0] == FileRow(1, {"name": "Jo"})
    assert found[1] == FileRow(2, {}, "a JSON object")
    assert [row.number for row in found] == [1, 2, 3, 4, 5]
    assert found[3].problem == "at most 64 levels"
    assert all(row.problem for row in found[2:])


def test_cells_become_values_of_their_fields() -> None:
    raw = '\ufeffid,name,total,tags,other\r\no1,"Jo, ""x""",12.5,"[""a""]",y\r\n\r\n,Al,,,\r\n'
    assert list(read_csv(raw.encode(), ORDERS)) == [
        FileRow(1, {"id": "o1", "name": 'Jo, "x"', "total": 12.5, "tags": ["a"], "other": "y"}),
        FileRow(2, {"name": "Al"}),
    ]


def test_a_row_of_another_width_is_a_problem_of_its_own() -> None:
    rows = list(read_csv(b"name,total\na,1\nb\nc,x\n", ORDERS))
    assert [row.problem for row in rows] == [None, "2 cells; there are 1", None]
    assert rows[2].fields == {"name": "c", "total": "x"}
    broken = list(read_csv(b'name,total\n"a"b,1\nc,2\n', ORDERS))
    assert "a row of CSV" in (broken[0].problem or "")


@pytest.mark.parametrize("raw", [b"", b"name,name\n", b"\xff\xfe", b'"name"x\n'])
def test_a_file_without_a_header_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidError):
        list(read_csv(raw, ORDERS))


def test_what_is_written_can_be_read_again() -> None:
    document = {"id": "o1", "name": "=1+1\nnext", "total": 5, "tags": ["a,b"], "version": 3}
    raw = csv_header(ORDERS) + csv_line(ORDERS, document)
    assert b"'=1+1" in raw
    (row,) = read_csv(raw, ORDERS)
    assert operation_of(row) == ("o1", {"name": "=1+1\nnext", "total": 5, "tags": ["a,b"]})
    (plain,) = read_csv(b"name\n'quoted'\n", ORDERS)
    assert plain.fields == {"name": "'quoted'"}


def test_a_row_without_an_id_has_none() -> None:
    assert operation_of(FileRow(1, {"name": "Jo"})) == (None, {"name": "Jo"})


def test_a_request_takes_a_bounded_number_of_lines() -> None:
    check_lines(b"{}\n" * (MAX_LINES - 1))
    with pytest.raises(InvalidError, match="at most 20,000 lines; it has 20,001: send it"):
        check_lines(b"{}\n" * MAX_LINES)
