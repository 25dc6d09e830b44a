from collections.abc import AsyncIterator

import httpx
import pytest

from cli.shell import follow as follow_module
from cli.shell.client import UnreachableError
from cli.shell.follow import StreamProgress, follow
from cli.shell.problems import ProblemResponseError
from cli.shell.sse import ServerEvent
from cli.waits.tail import entry_sentence
from tests.support.command_line import client_of

LOG = {
    0: "event: registered\nid: 0\ndata: {}\n\n",
    1: 'event: received\nid: 1\ndata: {"event": "api_response"}\n\n',
    2: 'event: received\nid: 2\ndata: {"event": "kafka_event"}\n\n',
    3: 'event: ended\nid: 3\ndata: {"status": "completed"}\n\n',
}


class BreakingServer:
    """Sends the log after Last-Event-ID, but cuts each answer after `piece` entries."""

    def __init__(self, piece: int, *, ends_in_error: bool = False) -> None:
        self.asked_after: list[str | None] = []
        self._piece = piece
        self._ends_in_error = ends_in_error

    def __call__(self, request: httpx.Request) -> httpx.Response:
        last = request.headers.get("Last-Event-ID")
        self.asked_after.append(last)
        start = 0 if last is None else int(last) + 1
        return httpx.Response(200, content=self._body(start))

    async def _body(self, start: int) -> AsyncIterator[bytes]:
        yield b"retry: 1\n\n"
        for number in range(start, min(start + self._piece, len(LOG))):
            yield LOG[number].encode()
        if self._ends_in_error:
            raise httpx.ReadError("cable pulled")


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_module, "_MAX_DELAY", 0.0)


async def ids(server: object) -> list[str | None]:
    client = client_of(server)  # type: ignore[arg-type]
    return [event.event_id async for event in follow(client, "e", "c")]


@pytest.mark.parametrize("piece", [1, 2, 3, 4])
@pytest.mark.parametrize("ends_in_error", [True, False])
async def test_a_broken_stream_goes_on_without_gap_or_repeat(
    piece: int, ends_in_error: bool
) -> None:
    server = BreakingServer(piece, ends_in_error=ends_in_error)
    assert await ids(server) == ["0", "1", "2", "3"]
    assert server.asked_after[0] is None
    assert len(server.asked_after) == -(-len(LOG) // piece)


async def test_what_the_server_repeats_is_told_once() -> None:
    asked = 0

    def answer(_: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        return httpx.Response(200, text="".join(LOG[n] for n in range(asked + 1)))

    assert await ids(answer) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_what_will_not_change_is_told_at_once(status: int) -> None:
    with pytest.raises(ProblemResponseError):
        await ids(lambda _: httpx.Response(status, json={"detail": "no"}))


async def test_nobody_there_at_the_first_try_is_told_at_once() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(UnreachableError, match="not running"):
        await ids(answer)


async def test_an_overloaded_server_is_asked_again_but_not_for_ever() -> None:
    breaks: list[str] = []
    client = client_of(lambda _: httpx.Response(503, json={"detail": "away"}))
    with pytest.raises(UnreachableError, match="Gave up following after 20 tries: Away"):
        async for _ in follow(client, "e", "c", on_break=breaks.append):
            pass
    assert breaks == ["Away."] * 20


def test_pauses_grow_from_what_the_server_asked_for_and_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follow_module, "_MAX_DELAY", 5.0)
    progress = StreamProgress(retry=1.0)
    assert [progress.pause() for _ in range(4)] == [1.0, 2.0, 4.0, 5.0]
    progress.accept(ServerEvent("received", "1", "{}"))
    assert progress.pause() == 1.0
    progress.failures = 20
    assert progress.pause() is None


@pytest.mark.parametrize(
    ("kind", "entry", "sentence"),
    [
        ("registered", {"enabledEvents": ["a", "b"]}, "waiting for a, b"),
        (
            "received",
            {"event": "api_response", "source": "api", "label": "pay"},
            "api_response from api pay",
        ),
        ("timed_out", {"event": "kafka_event"}, "kafka_event did not arrive in time"),
        (
            "late",
            {"event": "a", "source": "api", "label": "s"},
            "a from api s does not count: late",
        ),
        ("ended", {"status": "completed", "reason": "all came"}, "completed: all came"),
    ],
)
def test_each_entry_has_a_sentence(kind: str, entry: dict[str, object], sentence: str) -> None:
    assert entry_sentence(kind, entry) == sentence
