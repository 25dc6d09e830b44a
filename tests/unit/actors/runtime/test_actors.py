"""Every actor that has a name can be made, and starts by the base."""

import math
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from actors.runtime.actor import Actor
from actors.runtime.directory import _CLASSES, Directory
from actors.runtime.names import MAINTENANCE, TIMER, expected_actors
from core.shared.config import Config
from core.shared.errors import UnavailableError


@pytest.mark.parametrize("path", sorted(set(_CLASSES.values())))
def test_a_name_leads_to_an_actor_with_a_kind(path: str) -> None:
    module, _, name = path.partition(":")
    kind = getattr(import_module(module), name)
    assert issubclass(kind, Actor)
    assert kind.kind


def test_no_start_waits_for_maintenance() -> None:
    assert TIMER in expected_actors(Config(dsn=""))
    assert MAINTENANCE not in expected_actors(Config(dsn=""))


@pytest.mark.parametrize("error", [ValueError("no actor"), TimeoutError()])
async def test_an_actor_that_does_not_answer_is_looked_up_again(error: Exception) -> None:
    async def fail(_: int) -> Any:
        raise error

    directory = Directory(Config(dsn=""))
    found = SimpleNamespace(arm=SimpleNamespace(remote=fail))
    directory._handles._values["timer"] = (found, math.inf)
    with pytest.raises(UnavailableError, match="timer does not answer"):
        await directory.call("timer", "arm", 1)
    assert not directory._handles.has("timer")
