"""Which code may work on which schema."""

import pytest

from core.shared.schema_version import schema_problem

OWN = ["0001_first", "0002_second", "0003_third"]
APPLIED: dict[str, str | None] = dict.fromkeys(OWN)


def test_code_works_on_its_own_schema() -> None:
    assert schema_problem(OWN, APPLIED) is None


def test_code_does_not_work_before_its_migrations() -> None:
    assert schema_problem(OWN, {"0001_first": None}) == (
        "the database is at 0001, this version needs 0003: run `muster migrate`"
    )


def test_code_does_not_work_on_an_empty_database() -> None:
    assert schema_problem(OWN, {}) == (
        "the database has no schema, this version needs 0003: run `muster migrate`"
    )


@pytest.mark.parametrize("oldest", ["0002", "0003"])
def test_code_works_on_the_schema_of_the_next_release(oldest: str) -> None:
    newer = {"0004_fourth": oldest, "0005_fifth": oldest}
    assert schema_problem(OWN, APPLIED | newer) is None


@pytest.mark.parametrize("oldest", ["0004", None])
def test_code_does_not_work_on_the_schema_of_the_one_after(oldest: str | None) -> None:
    newer = {"0004_fourth": "0003", "0005_fifth": oldest}
    assert schema_problem(OWN, APPLIED | newer) == (
        "the database is at 0005, which is too new for this version, made for 0003: "
        "use a newer version"
    )
