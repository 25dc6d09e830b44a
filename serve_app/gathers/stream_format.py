"""The stream of a gather: the answer of each resource, and a summary at the end."""

from collections.abc import Callable

from core.gathers.gather import GatherSpec
from core.waits.state import Wait, WaitLogEntry
from core.waits.strategy import Outcome
from serve_app.gathers.rendering import event_document, summary_document
from serve_app.http.models import Document
from serve_app.http.sse import frame
from serve_app.streams.hub import Frame, LogUpdate, StreamFormat

_KINDS = {
    Outcome.RECEIVED.value: "callback",
    Outcome.REJECTED.value: "rejected",
    Outcome.TIMED_OUT.value: "timeout",
    Outcome.FAILED.value: "error",
}
_FORMATS: dict[str, Callable[[GatherSpec], StreamFormat]] = {}


def register_format(name: str, make: Callable[[GatherSpec], StreamFormat]) -> None:
    """Add a format in which gathers can be asked for and streamed."""
    _FORMATS[name] = make


def gather_format(spec: GatherSpec) -> StreamFormat:
    """Return the format in which a gather was asked for."""
    return _FORMATS[spec.format](spec)


def make_format(
    name: str,
    event: Callable[[Wait, WaitLogEntry], Document],
    summary: Callable[[Wait], Document],
) -> StreamFormat:
    """Make a format from the documents of an answer and of the summary."""

    def render(cursor: int, update: LogUpdate) -> list[Frame]:
        wait = update.wait
        frames = [
            (entry.seq, frame(_KINDS[entry.kind], entry.seq, event(wait, entry)))
            for entry in update.entries_after(cursor)
            if entry.kind in _KINDS
        ]
        if wait.ending is not None and update.counted is not None and cursor < wait.ending.seq:
            number = wait.ending.seq
            frames.append((number, frame("summary", number, summary(wait))))
        return frames

    return StreamFormat(name, render)


def _general_format(spec: GatherSpec) -> StreamFormat:
    # Each reader keeps its format for as long as it reads. A copy of the context does not keep the
    # whole request in memory.
    context = spec.context.copy()
    return make_format(
        "gather",
        lambda wait, entry: event_document(wait.address, entry),
        lambda wait: summary_document(wait, context),
    )


register_format("", _general_format)
