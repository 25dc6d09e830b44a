"""Classifies database errors: is the row at fault, or the server?

Only errors that are known to be the row's count as such. All others are the server's, and the same
write is retried on another connection: a read-only server after a failover, a rotated password or a
renamed table says nothing about the rows.
"""

from enum import StrEnum

import asyncpg
from asyncpg.exceptions import _base


class ErrorClass(StrEnum):
    """What an error means for the write that failed."""

    ROW = "row"
    """Postgres or its client will always reject this row."""
    SERVER = "server"
    """The row is not at fault: retry the same write later."""
    TIMEOUT = "timeout"
    """The statement is too large or the server is slow: retry in smaller batches."""


# SQLSTATE classes 22 (data), 23 (integrity) and 54 (program limit), and values that the client
# cannot encode, which have no SQLSTATE.
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
    # Time-outs are OSErrors. asyncpg raises InternalClientError if the server process ends during a
    # query, and if no server is writable.
    return (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, *classes)


# Errors that say nothing about a row and are worth a retry. Where one row's values may be at fault,
# call `error_class`: asyncpg raises InterfaceError for values it cannot encode, too.
SERVER_ERRORS = _server_errors()
# All errors of the driver and the server, including those of rows.
DATABASE_ERRORS: tuple[type[Exception], ...] = (*SERVER_ERRORS, asyncpg.PostgresError)
# For callers above storage, which do not import the driver.
DataError = asyncpg.DataError


def error_class(error: BaseException) -> ErrorClass:
    """Classify an error.

    An error of neither the driver nor the system is an encoding error in our code.
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


def is_duplicate(error: BaseException) -> bool:
    """Return True if a row could not be inserted because its key exists."""
    return isinstance(error, asyncpg.UniqueViolationError)
