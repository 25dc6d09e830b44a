import inspect
import pickle
from typing import Any

import pytest

from core.shared import errors
from core.shared.errors import (
    ConflictError,
    Denial,
    DeniedError,
    ForbiddenError,
    InvalidError,
    MusterError,
    NotFoundError,
    OverloadedError,
    QuotaExceededError,
    TransientError,
    UnauthenticatedError,
    UnavailableError,
)

SAMPLES: list[MusterError] = [
    MusterError("something"),
    InvalidError("timeout", "must be positive"),
    InvalidError(field="body", expected="must be JSON", status=400),
    NotFoundError("wait state e:c"),
    ConflictError("registered with another configuration"),
    DeniedError("no", Denial("unknown_key", "abc", 7)),
    UnauthenticatedError("no key"),
    ForbiddenError("waits:write is missing"),
    QuotaExceededError("rowsPerDay", 10, 60),
    TransientError("try again"),
    OverloadedError("queue is full", retry_after=5),
    UnavailableError("the database is away", 2),
]


@pytest.mark.parametrize("error", SAMPLES, ids=repr)
def test_an_error_keeps_type_and_attributes_between_processes(error: MusterError) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(error, protocol))
        assert type(again) is type(error)
        assert again.args == error.args
        assert vars(again) == vars(error)
        assert str(again) == str(error)


def test_every_error_has_a_sample() -> None:
    declared = {
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if kind.__module__ == errors.__name__ and issubclass(kind, BaseException)
    }
    assert declared == {type(error) for error in SAMPLES}
    assert all(issubclass(kind, MusterError) for kind in declared)
    assert all(kind.__name__.endswith("Error") for kind in declared)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (InvalidError("timeout", "must be positive"), "timeout: must be positive"),
        (NotFoundError("wait state e:c"), "wait state e:c does not exist"),
        (OverloadedError("queue is full", 5), "queue is full"),
        (ConflictError("taken"), "taken"),
    ],
    ids=repr,
)
def test_an_error_reads_as_a_sentence(error: MusterError, text: str) -> None:
    assert str(error) == text


def test_only_transient_errors_are_worth_another_try() -> None:
    assert {type(error) for error in SAMPLES if error.retryable} == {
        TransientError,
        OverloadedError,
        UnavailableError,
    }


@pytest.mark.parametrize(
    ("error", "attributes"),
    [
        (InvalidError("f", "e"), {"field": "f", "expected": "e", "status": 422}),
        (NotFoundError("w"), {"what": "w"}),
        (UnavailableError("d"), {"detail": "d", "retry_after": 1}),
    ],
    ids=repr,
)
def test_attributes(error: MusterError, attributes: dict[str, Any]) -> None:
    assert vars(error) == attributes
