import base64
import struct

import pytest

from core.shared.errors import InvalidError
from serve_app.http.cursors import read_id_cursor, read_wait_cursor, wait_cursor
from tests.unit.serve_app.container_fixtures import WaitHistory


def packed(opened_at: float) -> str:
    return base64.urlsafe_b64encode(struct.pack(">d16s", opened_at, b"k" * 16)).decode()


def test_a_listing_goes_on_where_it_stopped() -> None:
    wait = WaitHistory().now
    assert read_wait_cursor(wait_cursor((wait.opened_at, wait.address.key))) == (
        wait.opened_at,
        wait.address.key,
    )
    assert read_id_cursor("17") == 17
    assert read_wait_cursor(None) is None
    assert read_id_cursor(None) is None


@pytest.mark.parametrize(
    "text",
    ["", "x", "ü", "A" * 31, "A" * 33, packed(float("nan")), packed(float("inf")), packed(-1.0)],
)
def test_a_cursor_that_we_did_not_make_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="cursor"):
        read_wait_cursor(text)


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "²", "9" * 19])
def test_an_inbox_cursor_is_a_number(text: str) -> None:
    with pytest.raises(InvalidError, match="cursor"):
        read_id_cursor(text)
