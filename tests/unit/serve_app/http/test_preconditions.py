"""Which version a change expects, by its If-Match."""

import pytest

from core.shared.errors import InvalidError
from serve_app.http.preconditions import VersionedView, expected_version
from serve_app.http.problems import ProblemError


def test_an_etag_names_the_version() -> None:
    tag = VersionedView(version=3).response_headers()["ETag"]
    assert tag == '"3"'
    assert expected_version(tag) == 3
    assert expected_version(f" {tag} ") == 3


def test_a_star_stands_for_any_version() -> None:
    assert expected_version("*") is None


def test_a_change_has_to_say_what_it_expects() -> None:
    with pytest.raises(ProblemError) as missing:
        expected_version(None)
    problem = missing.value.problem
    assert (problem.status, problem.code) == (428, "precondition_required")
    assert "If-Match" in problem.detail


@pytest.mark.parametrize(
    "given", ["", "3", '"0"', '"-1"', '"x"', 'W/"3"', '"3", "4"', '"' + "9" * 10 + '"']
)
def test_other_tags_are_invalid(given: str) -> None:
    with pytest.raises(InvalidError) as wrong:
        expected_version(given)
    assert wrong.value.field == "If-Match"
