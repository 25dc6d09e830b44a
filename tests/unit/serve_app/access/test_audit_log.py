"""The audit log is a listing like any other: on their connections, within the tenant's share."""

from types import SimpleNamespace
from typing import Any

from starlette.requests import Request

from serve_app.access.audit_log import AuditQuery, list_audit_log
from serve_app.http.permissions import CALLER
from serve_app.http.router import Context
from storage.postgres import audit_log
from storage.postgres.audit_log import AuditEntry


class _Listings:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    async def query(self, *question: Any) -> list[AuditEntry]:
        self.asked.append(question)
        return [AuditEntry(audit_id=7, actor="a", action="key.created", object="k", at=0.0)]


async def test_it_is_read_as_a_listing_of_its_tenant() -> None:
    listings = _Listings()
    # There is no other way to the database here.
    app = SimpleNamespace(replica=SimpleNamespace(listings=listings))
    request = Request({"type": "http", "app": app, CALLER: SimpleNamespace(tenant=3)})
    page = await list_audit_log(AuditQuery(limit=1), Context(request))
    assert listings.asked == [(audit_log.page, 3, None, 1)]
    assert page.next_cursor == "7"
    assert page.items[0].at == "1970-01-01T00:00:00.000000Z"
