import msgspec
import pytest

from core.shared.timestamps import to_iso
from core.shared.tsid import made_at
from core.waits.messages import (
    Difference,
    OfferReply,
    Reason,
    RefusalKind,
    RefusedReply,
    Verdict,
)
from handlers.schemas.interface import Mismatch
from serve_app.events.event_models import EventCreated, EventDocument, EventsCreated, EventSummary
from serve_app.events.event_rendering import (
    all_created_document,
    created_document,
    event_document,
    event_item,
    rejection_error,
)
from serve_app.http.problems import ProblemError
from services.events.intake import (
    IngestedEvent,
    OfferAnswer,
    RejectedEvent,
    offer_to_wait,
)
from services.events.validator import ValidationResult, ValidationStatus
from storage.events.events import ListedEvent
from tests.support.happenings import event

FULL = event(
    subject="order:1",
    data=b'{"b" : 1.10}',
    content_type="application/json",
    data_schema="urn:x",
    type_version="1.0",
    execution_id="e",
    correlation_id="c",
    causation_id="x",
    deduplication_id="d",
    message_group="g",
    context=(("region", "us"),),
    extensions={"own": True},
)
OFFER = offer_to_wait(FULL, "turn")
REPLY = OfferAnswer(
    OFFER,
    OfferReply(
        verdict=Verdict.MATCHED,
        reason=Reason.EXPECTED,
        event="paid",
        clause=Difference(rule="filter", expected=1, actual=2),
    ),
)


def test_all_that_is_known_is_shown_and_data_as_it_came() -> None:
    raw = msgspec.json.encode(event_document(FULL))
    assert b'{"b" : 1.10}' in raw
    shown = EventDocument.model_validate_json(raw)
    assert shown.model_dump(by_alias=True, exclude={"time", "created_at"}) == {
        "id": FULL.event_id,
        "specVersion": "1.0",
        "type": FULL.type,
        "source": "shop",
        "subject": "order:1",
        "data": {"b": 1.1},
        "dataBase64": None,
        "dataContentType": "application/json",
        "dataSchema": "urn:x",
        "dataSize": None,
        "typeVersion": "1.0",
        "executionId": "e",
        "correlationId": "c",
        "causationId": "x",
        "deduplicationId": "d",
        "messageGroup": "g",
        "contextData": [{"key": "region", "value": "us"}],
        "extensions": {"own": True},
    }
    document = event_document(FULL)
    assert document["time"] == to_iso(FULL.time)
    assert document["createdAt"] == to_iso(made_at(FULL.event_id))


def test_what_is_not_there_is_left_out() -> None:
    document = event_document(event())
    assert document.keys() == {
        "id",
        "specVersion",
        "type",
        "source",
        "time",
        "contextData",
        "createdAt",
    }


@pytest.mark.parametrize(
    ("data", "content_type", "shown"),
    [
        ("<ö/>".encode(), "text/xml", {"data": "<ö/>"}),
        (b"\x00\xff", "image/png", {"dataBase64": "AP8="}),
        (b"", "text/plain", {"data": ""}),
    ],
)
def test_data_that_is_no_json_is_text_or_base64(
    data: bytes, content_type: str, shown: dict[str, str]
) -> None:
    document = event_document(event(data=data, content_type=content_type))
    assert {name: document[name] for name in ("data", "dataBase64") if name in document} == shown


def test_a_listing_shows_the_size_instead() -> None:
    document = event_item(ListedEvent(event(), 12))
    assert document["dataSize"] == 12
    assert "data" not in document
    assert "dataSize" not in event_item(ListedEvent(event(), None))
    EventSummary.model_validate_json(msgspec.json.encode(document))


def test_one_event_and_what_became_of_it() -> None:
    document = created_document(IngestedEvent(FULL, duplicate=False, jobs=2))
    assert (document["duplicate"], document["dispatchJobCount"]) == (False, 2)
    assert document.keys() == {"event", "duplicate", "dispatchJobCount"}
    warned = IngestedEvent(
        FULL, duplicate=True, jobs=0, warnings=(Mismatch("/a", "a text"),), wait=REPLY
    )
    told = EventCreated.model_validate_json(msgspec.json.encode(created_document(warned)))
    assert told.warnings is not None
    assert told.warnings[0].path == "/a"
    assert told.wait is not None
    assert (told.wait.verdict, told.wait.event) == ("matched", "paid")
    assert told.wait.clause is not None
    assert "clause" not in created_document(warned, brief=True)["wait"]


def test_a_batch_is_summed_up_and_its_findings_say_where() -> None:
    fine, again = (
        IngestedEvent(FULL, duplicate=False, jobs=2),
        IngestedEvent(FULL, duplicate=True, jobs=0),
    )
    plain = all_created_document([fine, again])
    assert (plain["count"], plain["dispatchJobCount"], plain["duplicateCount"]) == (2, 2, 1)
    assert plain.keys() == {"events", "count", "dispatchJobCount", "duplicateCount"}
    warned = IngestedEvent(FULL, duplicate=False, jobs=1, warnings=(Mismatch("", "x"),), wait=REPLY)
    raw = msgspec.json.encode(all_created_document([fine, warned]))
    told = EventsCreated.model_validate_json(raw)
    assert told.warnings is not None
    assert told.waits is not None
    assert (told.warnings[0].index, told.waits[0].index) == (1, 1)


def problem(error: ProblemError) -> tuple[int, str, list[str]]:
    return (
        error.problem.status,
        error.problem.code,
        [one.field for one in error.problem.field_errors],
    )


def test_what_does_not_fit_is_told_with_its_paths() -> None:
    found = (Mismatch("/items/0", "a text"), Mismatch("", "an object"))
    verdict = ValidationResult(
        ValidationStatus.REFUSED, accepted=False, version="1.0", mismatches=found
    )
    error = rejection_error(RejectedEvent(0, FULL, verdict), is_batch=False)
    assert problem(error) == (422, "schema_mismatch", ["data/items/0", "data"])
    assert f"{FULL.type} 1.0" in error.problem.detail
    unversioned = ValidationResult(ValidationStatus.REFUSED, accepted=False, mismatches=found[1:])
    assert problem(rejection_error(RejectedEvent(3, FULL, unversioned), is_batch=True)) == (
        422,
        "schema_mismatch",
        ["[3].data"],
    )


def test_a_type_that_must_be_known_and_is_not_is_told() -> None:
    error = rejection_error(
        RejectedEvent(0, FULL, ValidationResult(ValidationStatus.UNKNOWN, accepted=False)),
        is_batch=True,
    )
    assert problem(error) == (422, "unknown_event_type", ["[0].type"])


def test_a_fault_of_the_data_has_its_place_and_one_of_the_version_names_that() -> None:
    wrong = ValidationResult(
        ValidationStatus.REFUSED, accepted=False, version="1.0", mismatches=(Mismatch("a", "b"),)
    )
    (fault,) = rejection_error(RejectedEvent(1, FULL, wrong), is_batch=True).problem.field_errors
    assert fault.field == "[1].data.a"
    none = ValidationResult(
        ValidationStatus.REFUSED, accepted=False, mismatches=(Mismatch("", "b"),), is_misnamed=True
    )
    (fault,) = rejection_error(RejectedEvent(0, FULL, none), is_batch=False).problem.field_errors
    assert fault.field == "typeVersion"


@pytest.mark.parametrize(
    ("refused", "reason", "retryable"),
    [
        (RefusedReply(kind=RefusalKind.FULL, detail="x", verdict=Verdict.LATE), "log_full", False),
        (RefusedReply(kind=RefusalKind.BROKEN, detail="x"), "invalid", False),
        (RefusedReply(kind=RefusalKind.OVERLOADED, detail="x"), "overloaded", True),
        (RefusedReply(kind=RefusalKind.FAILED, detail="x"), "unavailable", True),
    ],
)
def test_a_stored_event_is_shown_with_what_its_wait_refused(
    refused: RefusedReply, reason: str, retryable: bool
) -> None:
    ingested = IngestedEvent(FULL, duplicate=False, jobs=1, wait=OfferAnswer(OFFER, refused))
    wait = created_document(ingested)["wait"]
    assert {name: wait[name] for name in ("verdict", "reason", "detail", "retryable")} == {
        "verdict": "refused",
        "reason": reason,
        "detail": "x",
        "retryable": retryable,
    }


def test_an_event_that_names_no_client_is_told_where_to_name_it() -> None:
    result = ValidationResult(ValidationStatus.REFUSED, accepted=False, lacks_client=True)
    error = rejection_error(RejectedEvent(2, FULL, result), is_batch=True)
    assert problem(error) == (422, "client_required", ["[2].contextData"])
