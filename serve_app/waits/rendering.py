"""Waits, logs and inbox events as JSON documents. Stored JSON is passed on byte for byte."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from core.shared.address import Address
from core.shared.json_path import json_or_text
from core.shared.timestamps import to_iso
from core.waits.explain import Explanation
from core.waits.messages import Difference
from core.waits.output import aggregate, payloads_of
from core.waits.spec import Strategy, WaitSpec
from core.waits.state import ParkedEvent, Wait, WaitLogEntry
from core.waits.strategy import Ending, Outcome, Status
from serve_app.http.event_replies import clause_document
from serve_app.http.models import Document, drop_none
from storage.waits.waits import LogPage, WaitRow


def ids_document(address: Address) -> Document:
    """Render the ids of a correlation."""
    return {
        "waitStateId": address.scoped_id,
        "executionId": address.execution_id,
        "correlationId": address.correlation_id,
    }


def required_events(spec: WaitSpec) -> list[str]:
    """Return the events that must come, if the strategy names any."""
    if spec.strategy in {Strategy.ANY, Strategy.QUORUM}:
        return []
    return spec.needed_names


def summary_document(wait: Wait) -> Document:
    """Render a wait for a listing."""
    received = [n for n, outcome in wait.outcomes.items() if outcome is Outcome.RECEIVED]
    enabled = [event.name for event in wait.spec.events]
    document = ids_document(wait.address) | {
        "nodeId": wait.node_id,
        "status": wait.status,
        "aggregationStrategy": wait.spec.strategy,
        "onTimeout": wait.spec.on_timeout,
        "enabledEvents": enabled,
        "requiredEvents": required_events(wait.spec),
        "receivedEvents": received,
        "missingEvents": [name for name in enabled if name not in received],
        "version": wait.version,
        "createdAt": to_iso(wait.opened_at),
        "expiresAt": to_iso(wait.expires_at),
    }
    if wait.ending is not None:
        document |= {"endedAt": to_iso(wait.ending.at), "reason": wait.ending.reason}
    return document


def wait_document(wait_row: WaitRow, entries: Iterable[WaitLogEntry]) -> Document:
    """Render a wait with its events, their data and its result."""
    wait = wait_row.wait
    payloads = payloads_of(wait, entries)
    document = summary_document(wait)
    document["events"] = {
        event.name: _event(wait, index, payloads) for index, event in enumerate(wait.spec.events)
    }
    if wait.ending is not None:
        document |= _ending(wait, wait.ending, payloads)
    if wait_row.resumed_at is not None:
        document |= {"resumedAt": to_iso(wait_row.resumed_at), "resumedBy": wait_row.resumed_by}
    return document


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
    """Return whether the end of the wait is on this page of its log."""
    last = page.entries[-1].seq if page.more else wait.log_length
    return wait.ending is not None and after < wait.ending.seq <= last


def registered_document(wait: Wait) -> Document:
    """Render the start of the log."""
    return {
        "id": 0,
        "type": "registered",
        "at": to_iso(wait.opened_at),
        "status": Status.WAITING,
        "enabledEvents": [event.name for event in wait.spec.events],
        "expiresAt": to_iso(wait.expires_at),
    }


def entry_document(entry: WaitLogEntry) -> Document:
    """Render one entry of the log."""
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
    """Render the end of the log, with the result of the wait."""
    return {
        "id": ending.seq,
        "type": "ended",
        "at": to_iso(ending.at),
        "status": ending.status,
        "reason": ending.reason,
        **_ending(wait, ending, payloads_of(wait, entries)),
    }


def explanation_document(explanation: Explanation) -> Document:
    """Render why a wait still waits, or why it ended."""
    return {
        "summary": explanation.summary,
        "events": explanation.events,
        "nearMisses": [
            {
                "eventId": miss.event_id,
                "source": miss.source,
                "label": miss.label,
                "verdict": miss.verdict,
                "reason": miss.reason,
                "at": to_iso(miss.at),
                "sentence": miss.sentence,
            }
            for miss in explanation.near_misses
        ],
    }


def inbox_item_document(row: Mapping[str, Any]) -> Document:
    """Render an event for a listing of the inbox."""
    document = {
        "inboxId": row["inbox_id"],
        "executionId": row["execution_id"],
        "correlationId": row["correlation_id"],
        "eventId": row["event_id"],
        "source": row["source"],
        "label": row["label"],
        "verdict": row["verdict"],
        "reason": row["reason"],
        "size": row["size"],
        "receivedAt": to_iso(row["at"]),
        "expiresAt": to_iso(row["expires_at"]),
    }
    if row["clause"] is not None:
        document["clause"] = clause_document(_clauses.decode(row["clause"]))
    return drop_none(document)


def inbox_event_document(inbox_id: int, parked: ParkedEvent) -> Document:
    """Render an event of the inbox with its data."""
    document = {
        "inboxId": inbox_id,
        "executionId": parked.address.execution_id or None,
        "correlationId": parked.address.correlation_id or None,
        "eventId": parked.event_id,
        "source": parked.source,
        "label": parked.label,
        "verdict": parked.verdict,
        "reason": parked.reason,
        "clause": clause_document(parked.clause) if parked.clause else None,
        "size": len(parked.payload),
        "receivedAt": to_iso(parked.at),
        "data": json_or_text(parked.payload),
    }
    return drop_none(document)


_clauses = msgspec.json.Decoder(Difference)


def _event(wait: Wait, index: int, payloads: Mapping[str, bytes]) -> Document:
    event, mark = wait.spec.events[index], wait.marks[index]
    document = {
        "outcome": mark.outcome,
        "source": event.source,
        "label": event.label,
        "required": event.required,
        "deadline": to_iso(wait.deadline_of(index)),
        "at": to_iso(mark.at) if mark.at else None,
        "eventId": mark.event_id or None,
        "data": json_or_text(payloads[event.name]) if event.name in payloads else None,
    }
    return drop_none(document)


def _ending(wait: Wait, ending: Ending, payloads: Mapping[str, bytes]) -> Document:
    document = {
        "partial": ending.partial,
        "missing": list(ending.missing),
        "warning": ending.warning,
        "output": aggregate(wait, payloads) if ending.status is Status.COMPLETED else None,
    }
    return drop_none(document)
