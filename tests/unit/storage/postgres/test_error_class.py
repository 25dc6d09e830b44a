"""Whose fault an error is: every class of the driver, and what is not the driver's."""

import asyncpg
import pytest
from asyncpg.exceptions._base import DataError as ClientDataError

from storage.postgres.error_class import SERVER_ERRORS, ErrorClass, error_class, is_server_error

_ROW_CLASSES = {"22", "23", "54"}


def _postgres_errors() -> list[type[asyncpg.PostgresError]]:
    found = vars(asyncpg.exceptions).values()
    return [
        one for one in found if isinstance(one, type) and issubclass(one, asyncpg.PostgresError)
    ]


@pytest.mark.parametrize("kind", _postgres_errors(), ids=lambda kind: kind.__name__)
def test_a_row_is_blamed_for_data_integrity_and_limits_only(
    kind: type[asyncpg.PostgresError],
) -> None:
    state = getattr(kind, "sqlstate", None)
    expected = ErrorClass.ROW if state and state[:2] in _ROW_CLASSES else ErrorClass.SERVER
    if state == "57014":
        expected = ErrorClass.TIMEOUT
    assert error_class(kind("x")) is expected
    # The abstract root is never raised: an unknown SQLSTATE is an UnknownPostgresError.
    if kind is not asyncpg.PostgresError:
        assert issubclass(kind, SERVER_ERRORS) is (expected is not ErrorClass.ROW)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(),
        TimeoutError(),
        EOFError(),
        MemoryError(),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.InternalClientError("got result for unknown protocol state"),
        asyncpg.TargetServerAttributeNotMatched("none of the hosts is writable"),
        asyncpg.OutdatedSchemaCacheError("cached statement plan is invalid"),
    ],
)
def test_the_way_to_the_server_is_the_servers(error: BaseException) -> None:
    assert is_server_error(error)


@pytest.mark.parametrize(
    "error",
    [
        ClientDataError("invalid input for query argument $1"),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
        OverflowError("int too big"),
        TypeError("a tuple of 3 was expected"),
        KeyError("bug"),
    ],
)
def test_what_cannot_be_encoded_is_the_rows(error: BaseException) -> None:
    assert error_class(error) is ErrorClass.ROW
