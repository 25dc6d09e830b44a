"""Unit tests are about decisions alone: no network, no cluster. Whoever tries is told so."""

import socket
from typing import NoReturn

import pytest
import ray
from hypothesis import HealthCheck, settings

# A slow machine is no failure of the code; the whole suite has a time limit of its own.
# To look longer: pytest tests/unit --hypothesis-profile=thorough
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("unit", _PATIENT, max_examples=30)
settings.register_profile("thorough", _PATIENT, max_examples=2000)
settings.load_profile("unit")

_ADVICE = "a unit test may not {what}: move it to tests/integration, or test the decision alone"


class UnitTestIsolationError(RuntimeError):
    """Raised where a unit test reaches for the world outside."""


def _refuse_ray(*_args: object, **_kwargs: object) -> NoReturn:
    raise UnitTestIsolationError(_ADVICE.format(what="start or join a Ray cluster"))


def _refuse_socket(*_args: object, **_kwargs: object) -> NoReturn:
    raise UnitTestIsolationError(_ADVICE.format(what="use a socket"))


class _NoSocket(socket.socket):
    """Only the pair that an event loop wakes itself with may exist: it leads nowhere."""

    def __init__(
        self,
        family: int = -1,
        type: int = -1,
        proto: int = -1,
        fileno: int | None = None,
    ) -> None:
        if family != socket.AF_UNIX or fileno is None:
            _refuse_socket()
        super().__init__(family, type, proto, fileno)

    connect = connect_ex = bind = sendto = _refuse_socket


@pytest.fixture(autouse=True)
def _stay_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", _NoSocket)
    monkeypatch.setattr(socket, "getaddrinfo", _refuse_socket)
    monkeypatch.setattr(ray, "init", _refuse_ray)
