"""Every fault by its name."""

from cli.chaos.database import DATABASE
from cli.chaos.fault import Fault
from cli.chaos.kills import KILLS
from cli.chaos.overload import OVERLOAD
from cli.chaos.slow_readers import SLOW_READERS
from cli.errors import InputError

_ALL = (*KILLS, *DATABASE, *OVERLOAD, *SLOW_READERS)
FAULTS: dict[str, Fault] = {fault.name: fault for fault in _ALL}


def fault_of(name: str) -> Fault:
    """The fault of this name."""
    if name not in FAULTS:
        raise InputError(f"There is no fault '{name}': choose one of {', '.join(FAULTS)}.")
    return FAULTS[name]
