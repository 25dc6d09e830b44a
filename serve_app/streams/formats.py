"""What streams tell of a correlation, in its different forms of words."""

from collections.abc import Callable

from core.gathers.gather import GatherSpec
from core.waits.state import Wait, WaitLogEntry
from core.waits.strategy import Outcome
from serve_app.gathers.rendering import (
    event_document,
    journal_event,
    journal_summary,
    patient_of,
    summary_document,
)
from serve_app.http.models import Document
from serve_app.streams.hub import Frame, FrameRenderer, LogUpdate, StreamFormat
from serve_app.streams.sse import frame
from serve_app.waits.rendering import ended_document, entry_document, registered_document


def render_wait_frames(cursor: int, update: LogUpdate) -> list[Frame]:
    """A wait's story: registered, what came, ended.

    The end itself is told once `counted` is there, the lines whose data is its result.
    """
    wait, counted = update.wait, update.counted
    frames: list[Frame] = []
    if cursor < 0:
        frames.append((0, frame("registered", 0, registered_document(wait))))
    frames.extend(
        (entry.seq, frame(entry.kind, entry.seq, entry_document(entry)))
        for entry in update.entries_after(cursor)
    )
    if wait.ending is not None and counted is not None and cursor < wait.ending.seq:
        document = ended_document(wait, wait.ending, counted)
        frames.append((wait.ending.seq, frame("ended", wait.ending.seq, document)))
    return frames


WAIT_FORMAT = StreamFormat("wait", render_wait_frames, includes_result=True)

_KINDS = {
    Outcome.RECEIVED.value: "callback",
    Outcome.REJECTED.value: "rejected",
    Outcome.TIMED_OUT.value: "timeout",
    Outcome.FAILED.value: "error",
}


def gather_format(asked: GatherSpec) -> StreamFormat:
    """A gather's story: how each resource answered, and what that amounts to."""
    if asked.journals:
        patient = patient_of(asked)
        return StreamFormat(
            "journals",
            _make_renderer(
                lambda wait, entry: journal_event(wait.address, patient, entry),
                lambda wait: journal_summary(wait, patient),
            ),
        )
    # Each reader holds its story, so that must not hold all that was asked, which a context does as
    # long as it is a part of it.
    context = asked.context.copy()
    return StreamFormat(
        "gather",
        _make_renderer(
            lambda wait, entry: event_document(wait.address, entry),
            lambda wait: summary_document(wait, context),
        ),
    )


def _make_renderer(
    event: Callable[[Wait, WaitLogEntry], Document], summary: Callable[[Wait], Document]
) -> FrameRenderer:
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

    return render
