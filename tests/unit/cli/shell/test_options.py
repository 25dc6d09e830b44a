import inspect
from dataclasses import dataclass
from typing import Annotated

import pytest

from cli.shell.options import flatten_options


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    url: str | None = None
    count: Annotated[int, "noted"]


@flatten_options
def command(name: str, group: Group, loud: bool = False) -> tuple[str, Group, bool]:
    """Do it."""
    return name, group, loud


def test_the_fields_of_a_group_become_parameters_in_its_place() -> None:
    parameters = inspect.signature(command).parameters
    assert list(parameters) == ["name", "url", "count", "loud"]
    assert parameters["url"].default is None
    assert parameters["count"].default is inspect.Parameter.empty
    assert parameters["count"].annotation == Annotated[int, "noted"]
    assert command.__doc__ == "Do it."


def test_the_group_is_put_together_for_the_call() -> None:
    called = command(name="n", url="u", count=3, loud=True)
    assert called == ("n", Group(url="u", count=3), True)


def test_a_field_that_is_missing_is_no_silent_default() -> None:
    with pytest.raises(KeyError):
        command(name="n", url="u", loud=True)
