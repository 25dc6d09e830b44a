"""Every fault by its name."""

from cli.chaos.database import DATABASE
from cli.chaos.fault import Fault
from cli.chaos.heavy_waits import HEAVY_WAITS
from cli.chaos.kills import KILLS
from cli.chaos.neighbour import NEIGHBOUR
from cli.chaos.overload import OVERLOAD
from cli.chaos.sick_database import SICK_DATABASE
from cli.chaos.slow_bodies import SLOW_BODIES
from cli.chaos.slow_readers import SLOW_READERS
from cli.errors import InputError

_ALL = (
    *KILLS,
    *DATABASE,
    *SICK_DATABASE,
    *OVERLOAD,
    *SLOW_READERS,
    *SLOW_BODIES,
    *HEAVY_WAITS,
    *NEIGHBOUR,
)
FAULTS: dict[str, Fault] = {fault.name: fault for fault in _ALL}


def fault_of(name: str) -> Fault:
    """The fault of this name."""
    if name not in FAULTS:
        raise InputError(f"There is no fault '{name}': choose one of {', '.join(FAULTS)}.")
    return FAULTS[name]
