"""Decides whether code and the schema of a database are compatible.

A release and the one before it may run side by side on the schema of the newer one. So each
migration names the oldest schema whose code still works with it: by default that of the last
release. Code needs all its migrations.
"""

from collections.abc import Mapping, Sequence

REMEDY = "run `muster migrate`"


def number_of(migration: str) -> str:
    """Return the number that a migration's name begins with."""
    return migration.partition("_")[0]


def schema_problem(own: Sequence[str], applied: Mapping[str, str | None]) -> str | None:
    """Say in a sentence why code with these migrations must not run on a schema; None if it may.

    Each applied one has the number of the oldest schema whose code works with it, if it is known.
    """
    missing = [name for name in own if name not in applied]
    if missing:
        at = max(map(number_of, applied), default=None)
        state = "has no schema" if at is None else f"is at {at}"
        return f"the database {state}, this version needs {number_of(missing[-1])}: {REMEDY}"
    newest = number_of(own[-1])
    foreign = sorted(applied.keys() - set(own))
    if all((oldest := applied[name]) is not None and oldest <= newest for name in foreign):
        return None
    return (
        f"the database is at {number_of(foreign[-1])}, which is too new for this version, made for "
        f"{newest}: use a newer version"
    )
