"""The log of a wait as JSON, in pages and in streams. Stored JSON is passed on byte for byte."""

from collections.abc import Iterable

from core.shared.address import Address
from core.shared.json_path import json_or_text
from core.shared.timestamps import to_iso
from core.waits.output import payloads_of
from core.waits.state import Wait, WaitLogEntry
from core.waits.strategy import Ending, Status
from serve_app.http.models import Document
from serve_app.http.sse import frame
from serve_app.streams.hub import Frame, LogUpdate, StreamFormat
from serve_app.waits.wait_models import ending_fields
from storage.waits.waits import LogPage


def ids_document(address: Address) -> Document:
    return {
        "waitStateId": address.scoped_id,
        "executionId": address.execution_id,
        "correlationId": address.correlation_id,
    }


def log_documents(
    wait: Wait, page: LogPage, after: int, counted: Iterable[WaitLogEntry]
) -> list[Document]:
    """Render a page of the log in order; the start and the end of a wait are no log entries."""
    documents = [entry_document(entry) for entry in page.entries]
    if after < 0:
        documents.append(registered_document(wait))
    if wait.ending is not None and includes_end(wait, page, after):
        documents.append(ended_document(wait, wait.ending, counted))
    return sorted(documents, key=lambda document: int(document["id"]))


def includes_end(wait: Wait, page: LogPage, after: int) -> bool:
    last = page.entries[-1].seq if page.more else wait.log_length
    return wait.ending is not None and after < wait.ending.seq <= last


def registered_document(wait: Wait) -> Document:
    return {
        "id": 0,
        "type": "registered",
        "at": to_iso(wait.opened_at),
        "status": Status.WAITING,
        "enabledEvents": [event.name for event in wait.spec.events],
        "expiresAt": to_iso(wait.expires_at),
    }


def entry_document(entry: WaitLogEntry) -> Document:
    document: Document = {
        "id": entry.seq,
        "type": entry.kind,
        "event": entry.event,
        "eventId": entry.event_id,
        "at": to_iso(entry.at),
    }
    if entry.source is not None:
        document |= {
            "source": entry.source,
            "label": entry.label,
            "data": json_or_text(entry.payload),
        }
    return document


def ended_document(wait: Wait, ending: Ending, entries: Iterable[WaitLogEntry]) -> Document:
    return {
        "id": ending.seq,
        "type": "ended",
        "at": to_iso(ending.at),
        "status": ending.status,
        "reason": ending.reason,
        **ending_fields(wait, ending, payloads_of(wait, entries)),
    }


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
