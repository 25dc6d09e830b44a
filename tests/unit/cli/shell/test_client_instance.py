import json
from pathlib import Path

import pytest

from cli.shell.errors import CommandError, InputError
from cli.shell.instance import DEFAULT_URL, find_instance

LOCAL = "http://127.0.0.1:8123"


def left_behind(folder: Path, url: str = LOCAL, key: str = "mk_local_secret\n") -> Path:
    (folder / "instance.json").write_text(json.dumps({"url": url, "pid": 1}))
    (folder / "admin.key").write_text(key)
    return folder


def test_flags_go_before_what_a_local_instance_left(tmp_path: Path) -> None:
    found = find_instance("https://muster.example/", "mk_a_b", left_behind(tmp_path))
    assert (found.url, found.key) == ("https://muster.example", "mk_a_b")
    assert not found.is_local


def test_a_local_instance_is_found_with_its_key(tmp_path: Path) -> None:
    found = find_instance(None, None, left_behind(tmp_path))
    assert (found.url, found.key) == (LOCAL, "mk_local_secret")
    assert found.is_local


def test_the_local_key_is_shown_to_no_other_address(tmp_path: Path) -> None:
    folder = left_behind(tmp_path)
    assert find_instance("http://127.0.0.1:9", None, folder).key is None
    assert find_instance("https://muster.example", None, folder).key is None
    assert find_instance(f"{LOCAL}/", None, folder).key == "mk_local_secret"


def test_a_key_that_was_given_is_not_shown_to_an_address_that_a_folder_names(
    tmp_path: Path,
) -> None:
    folder = left_behind(tmp_path, url="https://evil.example")
    with pytest.raises(CommandError, match=r"not sent to https://evil\.example.*--url"):
        find_instance(None, "mk_mine_secret", folder)
    (folder / "admin.key").unlink()
    with pytest.raises(CommandError, match="not sent"):
        find_instance(None, "mk_mine_secret", folder)
    named = find_instance("https://evil.example", "mk_mine_secret", folder)
    assert named.key == "mk_mine_secret", "whoever names the address means it"


def test_the_folders_own_key_may_be_given_as_well(tmp_path: Path) -> None:
    found = find_instance(None, "mk_local_secret", left_behind(tmp_path))
    assert (found.url, found.key) == (LOCAL, "mk_local_secret")


def test_where_no_folder_names_another_a_key_goes_to_the_default_address(tmp_path: Path) -> None:
    assert find_instance(None, "mk_a_b", tmp_path / "nowhere").key == "mk_a_b"


def test_an_empty_key_means_none_at_all(tmp_path: Path) -> None:
    assert find_instance(None, "", left_behind(tmp_path)).key is None


def test_without_anything_the_default_address_is_tried(tmp_path: Path) -> None:
    assert find_instance(None, None, tmp_path / "nowhere").url == DEFAULT_URL


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "ftp://host", "http://", "http://host:port", "http://host:99999"]
)
def test_what_is_no_address_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not an address"):
        find_instance(url, None, tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"url": 3}'])
def test_a_damaged_instance_file_is_told(text: str, tmp_path: Path) -> None:
    (tmp_path / "instance.json").write_text(text)
    with pytest.raises(CommandError, match="is damaged"):
        find_instance(None, None, tmp_path)


def test_a_key_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        find_instance(LOCAL, "mk_a\nX-Other: b", tmp_path)


def test_a_key_does_not_show_in_the_instance_s_text(tmp_path: Path) -> None:
    assert "secret" not in repr(find_instance(None, None, left_behind(tmp_path)))
