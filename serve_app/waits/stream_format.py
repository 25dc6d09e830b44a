"""The stream of a wait: its registration, its events and its end."""

from serve_app.http.sse import frame
from serve_app.streams.hub import Frame, LogUpdate, StreamFormat
from serve_app.waits.rendering import ended_document, entry_document, registered_document


def render_wait_frames(cursor: int, update: LogUpdate) -> list[Frame]:
    """Render the frames of a wait for a reader at `cursor`.

    The end follows once `counted` is there: the log entries whose data is the result.
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
