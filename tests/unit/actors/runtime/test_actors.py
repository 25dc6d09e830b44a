"""Every actor that has a name can be made, and starts by the base."""

from importlib import import_module

import pytest

from actors.runtime.actor import Actor
from actors.runtime.directory import _CLASSES
from actors.runtime.names import MAINTENANCE, TIMER, expected_actors
from core.shared.config import Config


@pytest.mark.parametrize("path", sorted(set(_CLASSES.values())))
def test_a_name_leads_to_an_actor_with_a_kind(path: str) -> None:
    module, _, name = path.partition(":")
    kind = getattr(import_module(module), name)
    assert issubclass(kind, Actor)
    assert kind.kind


def test_no_start_waits_for_maintenance() -> None:
    assert TIMER in expected_actors(Config(dsn=""))
    assert MAINTENANCE not in expected_actors(Config(dsn=""))
