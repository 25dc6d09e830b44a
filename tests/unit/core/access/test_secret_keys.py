import base64

import pytest

from core.access.secret_keys import format_key, key_id, parse_keys

ONE, OTHER = b"1" * 32, b"2" * 32


def test_a_key_written_down_is_read_back() -> None:
    assert parse_keys([f" {format_key(ONE)} ", format_key(OTHER)]) == (ONE, OTHER)


def test_keys_are_told_apart_by_their_ids_which_do_not_show_them() -> None:
    assert key_id(ONE) != key_id(OTHER)
    assert len(key_id(ONE)) == 16
    assert format_key(ONE) not in key_id(ONE)


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [""],
        ["hunter2"],
        ["ключ"],
        [base64.b64encode(b"1" * 31).decode()],
        [format_key(ONE), "hunter2"],
        [format_key(ONE), format_key(ONE)],
    ],
)
def test_what_is_no_key_is_refused_without_repeating_it(texts: list[str]) -> None:
    with pytest.raises(ValueError, match="must") as caught:
        parse_keys(texts)
    assert not any(text and text in str(caught.value) for text in texts)
