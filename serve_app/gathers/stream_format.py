"""The stream of a gather: the answer of each resource, and a summary at the end."""

from collections.abc import Callable
from typing import Any

from core.gathers.gather import GatherSpec, state_of_outcome, summarize
from core.shared.address import Address
from core.shared.json_path import MISSING, document_of, json_or_text
from core.shared.timestamps import to_iso
from core.waits.state import Wait, WaitLogEntry
from core.waits.strategy import Outcome, Status
from serve_app.http.models import Document
from serve_app.http.sse import frame
from serve_app.streams.hub import Frame, LogUpdate, StreamFormat

COMPLETE = "COMPLETE"
_KINDS = {
    Outcome.RECEIVED.value: "callback",
    Outcome.REJECTED.value: "rejected",
    Outcome.TIMED_OUT.value: "timeout",
    Outcome.FAILED.value: "error",
}
_FORMATS: dict[str, Callable[[GatherSpec], StreamFormat]] = {}


def decoded(payload: bytes) -> Any:
    document = document_of(payload) if payload else None
    return None if document is MISSING else document


def detail_of(document: Any) -> Document:
    detail = document.get("detail") if isinstance(document, dict) else None
    return {"detail": detail} if isinstance(detail, str) else {}


def event_document(address: Address, entry: WaitLogEntry) -> Document:
    outcome = Outcome(entry.kind)
    said = None if outcome is Outcome.RECEIVED else decoded(entry.payload)
    document: Document = {
        "source": entry.event,
        "correlationId": address.correlation_id,
        "status": state_of_outcome(outcome, said),
        "at": to_iso(entry.at),
        "data": json_or_text(entry.payload) if outcome is Outcome.RECEIVED else None,
    }
    return document if outcome is Outcome.RECEIVED else document | detail_of(said)


def summary_document(wait: Wait, context: Any) -> Document:
    """Render the last event of a gather's stream."""
    return {
        "source": "MUSTER",
        "correlationId": wait.address.correlation_id,
        "status": ending_status(wait),
        **tally_document(wait),
        "expected": len(wait.marks),
        "context": context,
        "at": to_iso(wait.ending.at) if wait.ending else None,
    }


def tally_document(wait: Wait) -> Document:
    """Render how many resources answered, and how."""
    tally = summarize(wait)
    names = ("completeness", "respondents", "errors", "received")
    return {name: getattr(tally, name) for name in names}


def ending_status(wait: Wait) -> str:
    """Return COMPLETE however many resources answered, or the status of a cancelled gather."""
    return COMPLETE if wait.status is Status.COMPLETED else wait.status.upper()


def register_format(name: str, make: Callable[[GatherSpec], StreamFormat]) -> None:
    _FORMATS[name] = make


def gather_format(spec: GatherSpec) -> StreamFormat:
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
