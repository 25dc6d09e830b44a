"""Checks the requested port, and finds free ones for what Ray would put on fixed ports."""

import errno
import hashlib
import os
import secrets
import socket
from collections.abc import Iterable
from pathlib import Path

from host.errors import HostError

LOOPBACK = "127.0.0.1"

# Serve gives each replica a port of its own from a range. Two instances must not share one: a
# proxy that still knows a dead replica's port would talk to the other instance. The blocks lie
# below Linux's ephemeral ports, so no outgoing connection takes one.
BLOCK_SIZE = 100
BLOCKS = range(20_000, 32_000, BLOCK_SIZE)
SINGLES = range(10_000, 20_000)


def require_free(host: str, port: int) -> None:
    """Raise HostError if `port` cannot be used, before anything has started."""
    try:
        _bind(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            sentence = f"Port {port} on {host} is taken. Choose another with --port."
        elif error.errno == errno.EACCES:
            sentence = (
                f"This user may not listen on port {port}. Choose one above 1023 with --port."
            )
        else:
            sentence = f"Cannot listen on {host}:{port}: {error.strerror}."
        raise HostError(sentence) from error


def free_port() -> int:
    """Return a port that is free on loopback now and that no outgoing connection is given."""
    for _ in range(100):
        port = SINGLES[secrets.randbelow(len(SINGLES))]
        if all_free([port]):
            return port
    return _bind(LOOPBACK, 0)


def stable_port(folder: Path, among: range) -> int:
    """Return a port derived from the folder, so that clients find it again after a restart."""
    digest = hashlib.sha256(os.fsencode(folder)).digest()
    usual = among[int.from_bytes(digest[:4]) % len(among)]
    return usual if all_free([usual]) else free_port()


def free_block(seed: int) -> range:
    """Return a block of ports whose first are free; different seeds begin at different blocks."""
    first = seed % len(BLOCKS)
    for start in (*BLOCKS[first:], *BLOCKS[:first]):
        if all_free(range(start, start + 4)):
            return range(start, start + BLOCK_SIZE)
    raise HostError("No ports between 20000 and 32000 are free for the Serve replicas.")


def all_free(ports: Iterable[int]) -> bool:
    try:
        for port in ports:
            _bind(LOOPBACK, port)
    except OSError:
        return False
    return True


def _bind(host: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        number: int = probe.getsockname()[1]
        return number
