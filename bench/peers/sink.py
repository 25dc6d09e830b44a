"""A server that answers anything at once: what is left is the load generator's own ceiling.

Run as `python -m bench.peers.sink PORT`.
"""

import sys

import uvloop

from bench.peers.raw_server import ServerConnection, serve_forever

ANSWER = (
    b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{"ok":true}'
)


class Sink(ServerConnection):
    """One answer for each piece of data: the generator has one request under way at a time."""

    def data_received(self, data: bytes) -> None:
        self.transport.write(ANSWER)


if __name__ == "__main__":
    uvloop.run(serve_forever(Sink, int(sys.argv[1])))
