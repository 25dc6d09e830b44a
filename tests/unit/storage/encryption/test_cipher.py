"""The cipher: what was encrypted for a place comes back there, and nowhere else."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from core.access.secret_keys import key_id
from storage.encryption import key_file
from storage.encryption.cipher import (
    DamagedSecretError,
    FileKeys,
    KeyRing,
    Location,
    MissingKeyError,
    is_encrypted,
    key_id_of,
)

ONE, OTHER = b"1" * 32, b"2" * 32
HERE = Location(7, "webhook_secrets", "sub_1", "secret")
SECRET = b"hunter22"  # no bit of the base64 is padding


def ring(*keys: bytes) -> KeyRing:
    return KeyRing(lambda: tuple(keys))


def test_a_value_comes_back_and_is_not_to_be_seen_in_between() -> None:
    stored = ring(ONE).encrypt(SECRET, HERE)
    assert ring(ONE).decrypt(stored, HERE) == SECRET
    assert SECRET.decode() not in stored
    assert is_encrypted(stored)
    assert is_encrypted(stored.encode())
    assert key_id_of(stored) == key_id(ONE)


def test_nothing_is_a_value_too() -> None:
    assert ring(ONE).decrypt(ring(ONE).encrypt(b"", HERE), HERE) == b""


def test_the_same_value_is_never_stored_alike() -> None:
    keys = ring(ONE)
    assert keys.encrypt(SECRET, HERE) != keys.encrypt(SECRET, HERE)


def test_the_first_key_encrypts_and_every_key_decrypts() -> None:
    old = ring(ONE).encrypt(SECRET, HERE)
    both = ring(OTHER, ONE)
    assert both.decrypt(old, HERE) == SECRET
    assert key_id_of(both.encrypt(SECRET, HERE)) == both.current == key_id(OTHER)


def test_a_missing_key_is_named_with_its_remedy() -> None:
    stored = ring(ONE).encrypt(SECRET, HERE)
    with pytest.raises(MissingKeyError, match=f"{key_id(ONE)}.*MUSTER_SECRET_KEY"):
        ring(OTHER).decrypt(stored, HERE)


@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(HERE, tenant=8),
        replace(HERE, table="signing_secrets"),
        replace(HERE, row="sub_2"),
        replace(HERE, column="auth"),
        replace(HERE, table="webhook_secretss", row="ub_1"),
    ],
)
def test_a_value_that_was_moved_is_worth_nothing(elsewhere: Location) -> None:
    stored = ring(ONE).encrypt(SECRET, HERE)
    with pytest.raises(DamagedSecretError, match="another row"):
        ring(ONE).decrypt(stored, elsewhere)


def test_every_changed_or_missing_letter_is_noticed() -> None:
    keys = ring(ONE)
    stored = keys.encrypt(SECRET, HERE)
    for at in range(len("enc:1:"), len(stored)):
        with pytest.raises((DamagedSecretError, MissingKeyError)):
            keys.decrypt(stored[:at], HERE)
        other = "A" if stored[at] != "A" else "B"
        with pytest.raises((DamagedSecretError, MissingKeyError)):
            keys.decrypt(stored[:at] + other + stored[at + 1 :], HERE)


def test_a_plain_value_has_no_key() -> None:
    assert key_id_of("{}") is None
    assert not is_encrypted(b"\x00" * 32)


def test_errors_name_no_secret_and_no_row() -> None:
    stored = ring(ONE).encrypt(SECRET, HERE)
    for keys, place in ((ring(OTHER), HERE), (ring(ONE), replace(HERE, row="x"))):
        with pytest.raises((DamagedSecretError, MissingKeyError)) as caught:
            keys.decrypt(stored, place)
        assert "sub_1" not in str(caught.value)
        assert stored not in str(caught.value)


def test_a_key_file_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "data" / "secret_key"
    assert key_file.ensure(path)
    made = path.read_bytes()
    assert not key_file.ensure(path)
    assert path.read_bytes() == made
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"
    key_file.ensure(path)
    path.chmod(0o640)
    with pytest.raises(key_file.KeyFileError, match="chmod 600"):
        key_file.read(path)


@pytest.mark.parametrize("text", ["", "hunter2\n", "é"])
def test_a_broken_key_file_is_refused_and_never_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "secret_key"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(key_file.KeyFileError, match="restore it") as caught:
        key_file.ensure(path)
    assert "hunter2" not in str(caught.value)
    assert path.read_text(encoding="utf-8") == text


def test_a_replaced_key_file_is_noticed_by_whoever_runs(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"
    key_file.write(path, [ONE])
    running = KeyRing(FileKeys(str(path)))
    old = running.encrypt(SECRET, HERE)
    key_file.write(path, [OTHER, ONE])
    assert key_id_of(running.encrypt(SECRET, HERE)) == key_id(OTHER)
    assert running.decrypt(old, HERE) == SECRET


def test_what_another_process_encrypted_under_a_new_key_is_read(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"
    key_file.write(path, [ONE])
    running = KeyRing(FileKeys(str(path)))
    key_file.write(path, [OTHER, ONE])
    assert running.decrypt(ring(OTHER).encrypt(SECRET, HERE), HERE) == SECRET


def test_a_key_file_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"
    key_file.write(path, [ONE])
    running = KeyRing(FileKeys(str(path)))
    os.unlink(path)
    with pytest.raises(MissingKeyError, match="secret_key is gone"):
        running.encrypt(SECRET, HERE)
