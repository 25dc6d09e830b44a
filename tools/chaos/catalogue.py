"""Every fault by its name."""

from cli.shell.errors import InputError
from tools.chaos.fault import Fault
from tools.chaos.faults.database import DATABASE
from tools.chaos.faults.heavy_waits import HEAVY_WAITS
from tools.chaos.faults.kills import KILLS
from tools.chaos.faults.neighbour import NEIGHBOUR
from tools.chaos.faults.overload import OVERLOAD
from tools.chaos.faults.sick_database import SICK_DATABASE
from tools.chaos.faults.slow_bodies import SLOW_BODIES
from tools.chaos.faults.slow_readers import SLOW_READERS

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


def find_fault(name: str) -> Fault:
    """Find a fault by its name; an unknown name is an input error."""
    if name not in FAULTS:
        raise InputError(f"There is no fault '{name}': choose one of {', '.join(FAULTS)}.")
    return FAULTS[name]
