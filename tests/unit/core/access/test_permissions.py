import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.access.permissions import ALL_PERMISSIONS, Permission, compose_key, hash_secret, split_key


def test_a_key_is_split_as_it_was_composed() -> None:
    key = compose_key("a1b2", "s3cret_with_underscore")
    assert key == "mk_a1b2_s3cret_with_underscore"
    assert split_key(key) == ("a1b2", hash_secret("s3cret_with_underscore"))


def test_only_the_hash_is_remembered() -> None:
    assert hash_secret("s3cret") == hashlib.sha256(b"s3cret").digest()


@pytest.mark.parametrize(
    "key",
    ["", "mk", "mk_", "mk_a", "mk_a_", "mk__s", "__", "sk_a_s", "MK_a_s", "mk-a-s", "mk_a_é", "é"],
)
def test_what_cannot_be_a_key(key: str) -> None:
    assert split_key(key) is None


@given(st.text())
def test_no_text_breaks_the_reader(key: str) -> None:
    split_key(key)


def test_permissions_name_what_and_how() -> None:
    assert set(ALL_PERMISSIONS) == set(Permission)
    for permission in Permission:
        what, _, how = permission.partition(":")
        assert what.replace("_", "").isalpha()
        assert how in {"read", "write"}
