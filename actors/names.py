"""What the actors are called, and which of them a correlation lives in."""

from core.address import shard_of
from core.config import Config, Placement

SUPERVISOR = "supervisor"
TIMER = "timer"
SHARD = "shard-"
DEDICATED = "correlation:"


def shard_name(index: int) -> str:
    """The name of one shard."""
    return f"{SHARD}{index}"


def home_of(key: bytes, config: Config) -> str:
    """The actor that hosts this correlation: the whole difference between the two placements."""
    if config.placement is Placement.DEDICATED:
        return f"{DEDICATED}{key.hex()}"
    return shard_name(shard_of(key, config.shards))
