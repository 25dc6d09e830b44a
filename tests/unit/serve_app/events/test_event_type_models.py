"""Event types and versions as callers see them."""

import msgspec
import pytest

from core.events.event_type import (
    EventTypeRefusal,
    SchemaType,
    TypeSource,
    TypeStatus,
    Validation,
    Version,
    VersionStatus,
)
from serve_app.events.event_type_models import EventTypeView
from serve_app.events.event_type_sync_models import EventTypeSyncView
from serve_app.http.problems import ProblemError
from storage.events.event_types import EventType, SpecVersion
from storage.postgres.reconciler import DeclarationOptions, SyncRefusal

CODE = "shop:orders:order:created"
EPOCH = "1970-01-01T00:00:00.000000Z"


def test_an_event_type_is_shown_with_its_segments_and_versions() -> None:
    version = SpecVersion(
        version=Version(1, 0),
        status=VersionStatus.CURRENT,
        mime_type="application/json",
        schema_type=SchemaType.JSON_SCHEMA,
        digest=b"d",
        weight=None,
        created_at=0.0,
        updated_at=0.0,
    )
    row = EventType(
        event_type_id="evt_1",
        code=CODE,
        name="Order created",
        description=None,
        status=TypeStatus.CURRENT,
        source=TypeSource.API,
        client_scoped=False,
        validation=Validation.ENFORCE,
        created_at=0.0,
        updated_at=0.0,
        versions=(version,),
    )
    assert msgspec.json.decode(EventTypeView.of(row).model_dump_json(by_alias=True)) == {
        "id": "evt_1",
        "code": CODE,
        "application": "shop",
        "subdomain": "orders",
        "aggregate": "order",
        "event": "created",
        "name": "Order created",
        "description": None,
        "status": "CURRENT",
        "source": "API",
        "clientScoped": False,
        "validation": "enforce",
        "specVersions": [
            {
                "version": "1.0",
                "status": "CURRENT",
                "mimeType": "application/json",
                "schemaType": "JSON_SCHEMA",
                "createdAt": EPOCH,
                "updatedAt": EPOCH,
            }
        ],
        "createdAt": EPOCH,
        "updatedAt": EPOCH,
    }


def test_a_refused_declaration_names_the_type_and_the_version() -> None:
    refusal = SyncRefusal(CODE, EventTypeRefusal.INVALID_STATUS, Version(1, 0))
    with pytest.raises(ProblemError) as refused:
        EventTypeSyncView.of_result(DeclarationOptions(application="shop"), refusal)
    problem = refused.value.problem
    assert (problem.status, problem.code) == (409, "invalid_status")
    assert problem.detail.startswith(f"{CODE} 1.0: only a version that is FINALISING")
