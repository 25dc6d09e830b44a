"""Classifies database errors: is the row at fault, or the server?

Only what is known to be the row's is blamed on it. Everything else is trouble of the server: the
same write is worth another try, on another connection. A read-only server after a failover, a
password that is being rotated, a table that a migration has renamed: none of these says anything
about the rows that met it.
"""

from enum import StrEnum

import asyncpg
from asyncpg.exceptions import _base


class ErrorClass(StrEnum):
    """What an error means for the write that failed."""

    ROW = "row"
    """Postgres, or its client, will never take this row."""
    SERVER = "server"
    """Nothing about the row: the same again, later."""
    TIMEOUT = "timeout"
    """Too much for one statement, or the server is slow: again, but less at once."""


# SQLSTATE classes 22 (data), 23 (integrity), 54 (program limit), and values that the client itself
# cannot encode, which are no SQLSTATE.
_ROW_ERRORS = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    _base.DataError,
)


def _server_errors() -> tuple[type[Exception], ...]:
    """Return all errors of the driver except those of rows, as `except` takes a tuple."""
    classes = [
        each
        for each in vars(asyncpg.exceptions).values()
        if isinstance(each, type)
        and issubclass(each, asyncpg.PostgresError)
        and each is not asyncpg.PostgresError
        and not issubclass(each, _ROW_ERRORS)
    ]
    # Time-outs are OSErrors. An InternalClientError is what asyncpg says when a query meets the
    # news that its server process was ended, and when no server is writable.
    return (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, *classes)


# What says nothing about a row: worth another try, never a broken promise. Where one row's
# values are at stake ask `error_class`: what asyncpg cannot encode is an InterfaceError as well.
SERVER_ERRORS = _server_errors()
# All that the driver and the server raise, those of rows included.
DATABASE_ERRORS: tuple[type[Exception], ...] = (*SERVER_ERRORS, asyncpg.PostgresError)
# For callers above storage, which do not import the driver.
DataError = asyncpg.DataError


def error_class(error: BaseException) -> ErrorClass:
    """Classify an error.

    One that neither the driver nor the system raised is an encoding error of ours.
    """
    if isinstance(error, _ROW_ERRORS):
        return ErrorClass.ROW
    if isinstance(error, asyncpg.QueryCanceledError):
        return ErrorClass.TIMEOUT
    driver = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
    is_servers = isinstance(error, (*driver, OSError, EOFError, MemoryError))
    return ErrorClass.SERVER if is_servers else ErrorClass.ROW


def is_server_error(error: BaseException) -> bool:
    """Return True if the same write may succeed later, or in smaller batches."""
    return error_class(error) is not ErrorClass.ROW
