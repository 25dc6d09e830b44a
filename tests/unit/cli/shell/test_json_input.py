import re
from pathlib import Path

import pytest

from cli.shell.errors import InputError
from cli.shell.json_input import read_document, read_json_text, read_object


def test_json_is_taken_as_it_stands() -> None:
    assert read_document('{"a": [1, null]}') == {"a": [1, None]}
    assert read_document('"-"') == "-"


def test_a_file_is_named_by_an_at_sign(tmp_path: Path) -> None:
    path = tmp_path / "with a space.json"
    path.write_text('{"ü": 1}', encoding="utf-8")
    assert read_document(f"@{path}") == {"ü": 1}


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(InputError, match=r"Cannot read /nowhere: No such file or directory\."):
        read_document("@/nowhere")


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not UTF-8"):
        read_document(f"@{path}")


def test_what_is_no_json_is_told_with_its_place() -> None:
    with pytest.raises(InputError, match=r"The argument is not JSON: .+ at line 2, column 5"):
        read_document('{\n"a":}')


def test_nesting_without_end_is_told() -> None:
    with pytest.raises(InputError, match="nested too deeply"):
        read_document("[" * 200_000)


@pytest.mark.parametrize("text", ["NaN", '{"a": -Infinity}', "1" * 5000])
def test_numbers_that_json_has_not_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not JSON"):
        read_document(text)


def test_a_text_to_send_keeps_every_digit() -> None:
    assert read_json_text('{"price": 1.10, "big": 1e400}') == '{"price": 1.10, "big": 1e400}'
    with pytest.raises(InputError):
        read_json_text("{")


@pytest.mark.parametrize(
    ("text", "shown"),
    [("1", "1"), ("[]", "[]"), ("null", "null"), ('"x"', '"x"'), ("true", "true")],
)
def test_an_object_has_to_be_one(text: str, shown: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"not {shown}.")):
        read_object(text)
