"""The guard of tests/unit/conftest.py, seen from a test that forgets where it is."""

import asyncio
import socket
import urllib.request

import pytest
import ray

from tests.unit.conftest import UnitTestIsolationError


def test_a_socket_cannot_be_opened() -> None:
    with pytest.raises(UnitTestIsolationError, match="may not use a socket"):
        socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with pytest.raises(UnitTestIsolationError, match="may not use a socket"):
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


def test_a_connection_cannot_be_made() -> None:
    with pytest.raises(UnitTestIsolationError, match="may not use a socket"):
        socket.create_connection(("127.0.0.1", 9))
    with pytest.raises(UnitTestIsolationError, match="may not use a socket"):
        urllib.request.urlopen("http://127.0.0.1:9/")


async def test_asyncio_cannot_connect_either() -> None:
    with pytest.raises(UnitTestIsolationError, match="may not use a socket"):
        await asyncio.open_connection("127.0.0.1", 9)


def test_an_event_loop_can_still_be_made() -> None:
    async def one() -> int:
        return 1

    assert asyncio.run(one()) == 1


def test_ray_cannot_be_started_openly_or_by_accident() -> None:
    with pytest.raises(UnitTestIsolationError, match="Ray cluster"):
        ray.init()
    with pytest.raises(UnitTestIsolationError, match="Ray cluster"):
        ray.get([])
