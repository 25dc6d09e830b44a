"""A receiver of deliveries on loopback: it remembers what came, and answers as a test wants."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.product import new_id, until


@dataclass(frozen=True)
class Delivery:
    """One request that came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """What the body says."""
        return json.loads(self.body)


@dataclass
class Answer:
    """What is said to a delivery; `hold` keeps the sender waiting until it is set."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    hold: threading.Event | None = None


Decide = Callable[[Delivery], Answer]


class Receiver:
    """Places of one server; each decides for itself."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._places: dict[str, Decide] = {}
        self._received: dict[str, list[Delivery]] = {}
        self._lock = threading.Lock()

    def place(self, decide: Decide | int = 200) -> "Target":
        """A new address, and what happens there."""
        path = f"/{new_id()}"
        target = Target(self, path)
        target.becomes(decide)
        return target

    def set(self, path: str, decide: Decide) -> None:
        """From now on it answers like this."""
        self._places[path] = decide

    def take(self, delivery: Delivery) -> Answer:
        """Note a delivery and decide."""
        with self._lock:
            self._received.setdefault(delivery.path, []).append(delivery)
        decide = self._places.get(delivery.path)
        return Answer(404) if decide is None else decide(delivery)

    def received(self, path: str) -> list[Delivery]:
        """What came to an address."""
        with self._lock:
            return list(self._received.get(path, ()))


@dataclass(frozen=True)
class Target:
    """One address of a receiver."""

    receiver: Receiver
    path: str

    @property
    def url(self) -> str:
        return self.receiver.url + self.path

    @property
    def deliveries(self) -> list[Delivery]:
        """What came so far."""
        return self.receiver.received(self.path)

    def becomes(self, decide: Decide | int) -> None:
        """From now on it answers like this."""
        status = decide
        self.receiver.set(
            self.path,
            (lambda _: Answer(status)) if isinstance(status, int) else status,
        )

    def gets(self, number: int, within: float = 30.0) -> list[Delivery]:
        """Wait until so many came."""
        until(f"{number} deliveries", lambda: len(self.deliveries) >= number, within)
        return self.deliveries


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            told = receiver.take(Delivery(self.path, headers, self.rfile.read(length)))
            if told.hold is not None:
                told.hold.wait(60)
            self.send_response(told.status)
            for name, value in {"Content-Type": "application/json", **told.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(told.body)))
            self.end_headers()
            self.wfile.write(told.body)

        def log_message(self, *_: Any) -> None:
            """Tests look at what came, not at lines about it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = Receiver(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
