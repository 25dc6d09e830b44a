"""Documents come back from Postgres with the numbers that they had."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.records.stored_json import encode_document


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e30, "1000000000000000000000000000000.0"),
        (-1.5e17, "-150000000000000000.0"),
        (1.2345678901234568e18, "1234567890123456800.0"),
        (1e-7, "0.0000001"),
        (2.5, "2.5"),
        (2**63 - 1, "9223372036854775807"),
        ("about 1e30", '"about 1e30"'),
        ([1e22, {"a": 1e22}], '[10000000000000000000000.0,{"a":10000000000000000000000.0}]'),
        (None, "null"),
    ],
)
def test_numbers_are_written_out(value: Any, text: str) -> None:
    assert encode_document({"x": value}) == f'{{"x":{text}}}'


@given(st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False, allow_infinity=False)))
def test_a_double_is_read_as_the_same_double(data: dict[str, float]) -> None:
    found = msgspec.json.decode(encode_document(data))
    assert found == data
    assert all(type(value) is float for value in found.values())
