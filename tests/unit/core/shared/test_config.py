import dataclasses
import pickle

import pytest

from core.shared.config import Config, Placement


def test_configuration_travels_to_actors_and_stays_as_it_is() -> None:
    config = Config(dsn="postgresql://localhost/muster", shards=3, placement=Placement.DEDICATED)
    assert pickle.loads(pickle.dumps(config)) == config
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.shards = 4  # type: ignore[misc]


def test_every_limit_and_time_is_positive() -> None:
    numbers = [
        value
        for value in dataclasses.asdict(Config(dsn="")).values()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    assert numbers
    assert all(number > 0 for number in numbers)
