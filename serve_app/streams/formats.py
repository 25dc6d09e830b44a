"""What streams tell of a correlation, in its different forms of words."""

from collections.abc import Callable

from core.gathers.gather import Asked
from core.waits.state import Entry, Wait
from core.waits.strategy import Outcome
from serve_app.gathers.rendering import (
    event_document,
    journal_event,
    journal_summary,
    patient_of,
    summary_document,
)
from serve_app.streams.hub import Frame, News, Story, Teller
from serve_app.streams.sse import frame
from serve_app.waits.rendering import Document, ended_document, entry_document, registered_document


def frames_of_wait(cursor: int, news: News) -> list[Frame]:
    """A wait's story: registered, what came, ended.

    The end itself is told once `counted` is there, the lines whose data is its result.
    """
    wait, counted = news.wait, news.counted
    frames: list[Frame] = []
    if cursor < 0:
        frames.append((0, frame("registered", 0, registered_document(wait))))
    frames.extend(
        (entry.seq, frame(entry.kind, entry.seq, entry_document(entry)))
        for entry in news.lines_after(cursor)
    )
    if wait.ending is not None and counted is not None and cursor < wait.ending.seq:
        document = ended_document(wait, wait.ending, counted)
        frames.append((wait.ending.seq, frame("ended", wait.ending.seq, document)))
    return frames


WAIT_STORY = Story("wait", frames_of_wait, tells_result=True)

_KINDS = {
    Outcome.RECEIVED.value: "callback",
    Outcome.REJECTED.value: "rejected",
    Outcome.TIMED_OUT.value: "timeout",
    Outcome.FAILED.value: "error",
}


def gather_story(asked: Asked) -> Story:
    """A gather's story: how each resource answered, and what that amounts to."""
    if asked.journals:
        patient = patient_of(asked)
        return Story(
            "journals",
            _teller(
                lambda wait, entry: journal_event(wait.address, patient, entry),
                lambda wait: journal_summary(wait, patient),
            ),
        )
    # Each reader holds its story, so that must not hold all that was asked, which a context does as
    # long as it is a part of it.
    context = asked.context.copy()
    return Story(
        "gather",
        _teller(
            lambda wait, entry: event_document(wait.address, entry),
            lambda wait: summary_document(wait, context),
        ),
    )


def _teller(
    event: Callable[[Wait, Entry], Document], summary: Callable[[Wait], Document]
) -> Teller:
    def tell(cursor: int, news: News) -> list[Frame]:
        wait = news.wait
        frames = [
            (entry.seq, frame(_KINDS[entry.kind], entry.seq, event(wait, entry)))
            for entry in news.lines_after(cursor)
            if entry.kind in _KINDS
        ]
        if wait.ending is not None and news.counted is not None and cursor < wait.ending.seq:
            number = wait.ending.seq
            frames.append((number, frame("summary", number, summary(wait))))
        return frames

    return tell
