"""Gathers in the format of the journals interface, and their stream in it."""

from collections.abc import Mapping
from typing import Any

from core.gathers.gather import GatherSpec, state_of, state_of_outcome
from core.shared.address import Address
from core.shared.call_outcome import CallState
from core.shared.json_path import MISSING, document_of, find
from core.waits.state import Wait, WaitLogEntry
from core.waits.strategy import Outcome
from serve_app.gathers import stream_format
from serve_app.http.models import Document
from serve_app.streams.hub import StreamFormat

FORMAT = "journals"
AGGREGATOR = "AGGREGATOR"


def patient_of(asked: GatherSpec) -> Any:
    found = find(document_of(bytes(asked.context)), "patientId")
    return None if found is MISSING else found


def journal_event(address: Address, patient: Any, entry: WaitLogEntry) -> Document:
    """Render the answer of one resource; fields without a value are null."""
    outcome, said = Outcome(entry.kind), stream_format.decoded(entry.payload)
    given = said if isinstance(said, dict) else {}
    document = _journal_object(address, patient) | {
        "source": entry.event,
        "delayMs": given.get("delayMs"),
        "status": state_of_outcome(outcome, said),
        "notes": given.get("notes"),
    }
    return document if outcome is Outcome.RECEIVED else document | stream_format.detail_of(said)


def journal_summary(wait: Wait, patient: Any) -> Document:
    """Render the last event of the stream, which sums up the answers."""
    return _journal_object(wait.address, patient) | {
        "source": AGGREGATOR,
        "status": stream_format.ending_status(wait),
        **stream_format.tally_document(wait),
    }


def _journal_object(address: Address, patient: Any) -> Document:
    return {
        "source": None,
        "patientId": patient,
        "correlationId": address.correlation_id,
        "delayMs": None,
        "status": None,
        "notes": None,
        "respondents": None,
        "errors": None,
    }


def journal_result(wait: Wait, patient: Any, payloads: Mapping[str, bytes]) -> Document:
    """Render all notes in one document, in the order in which the resources answered."""
    notes: list[Any] = []
    resources: Document = {}
    marks = sorted(zip(wait.spec.names, wait.marks, strict=True), key=lambda at: at[1].seq)
    for name, mark in marks:
        said = stream_format.decoded(payloads.get(name, b""))
        given = said if isinstance(said, dict) else {}
        own = given.get("notes") if mark.outcome is Outcome.RECEIVED else None
        own = own if isinstance(own, list) else []
        notes += own
        state = state_of(mark, said)
        resources[name] = {"status": state, "delayMs": given.get("delayMs"), "notes": len(own)}
        if state is not CallState.OK:
            resources[name] |= stream_format.detail_of(said)
    return {
        "patientId": patient,
        "correlationId": wait.address.correlation_id,
        "status": stream_format.ending_status(wait),
        **stream_format.tally_document(wait),
        "notes": notes,
        "resources": {name: resources[name] for name in wait.spec.names},
    }


def _stream_format(spec: GatherSpec) -> StreamFormat:
    patient = patient_of(spec)
    return stream_format.make_format(
        FORMAT,
        lambda wait, entry: journal_event(wait.address, patient, entry),
        lambda wait: journal_summary(wait, patient),
    )


stream_format.register_format(FORMAT, _stream_format)
