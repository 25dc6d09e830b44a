"""Records of one tenant, as another meets them."""

from collections.abc import Callable
from typing import Any

from tests.acceptance.records.collection_isolation import COLLECTIONS, Theirs
from tests.support.problem import assert_problem
from tests.support.product import Product, new_id

FIELDS = [{"name": "plan", "type": "STRING"}]
SECRET = "the secret plan"
Check = Callable[[Product, Any], None]


class _Record:
    """A record, in a collection whose name the other tenant uses as well."""

    def __init__(self, owner: Product, other: Product, *, is_shared: bool) -> None:
        self.owner = owner
        name = f"theirs-{new_id()}"
        for tenant in (owner, *((other,) if is_shared else ())):
            made = tenant.http.post(COLLECTIONS, json={"name": name, "fields": FIELDS})
            assert made.status_code == 201, made.text
        self.records = f"/api/collections/{name}/records"
        made = owner.http.post(self.records, json={"id": "r1", "plan": SECRET})
        assert made.status_code == 201, made.text
        self.document = made.json()

    def is_untouched(self) -> bool:
        return bool(self.owner.http.get(f"{self.records}/r1").json() == self.document)


def _cannot_reach(method: str, rest: str = "", body: Any = None) -> Check:
    """Neither where the other has no such collection, nor where it has one without the record."""

    def check(other: Product, theirs: Theirs) -> None:
        for is_shared, code in ((False, "collection_not_found"), (True, "record_not_found")):
            made = _Record(theirs.owner, other, is_shared=is_shared)
            path = f"{made.records}/r1{rest}"
            reply = other.http.request(method, path, json=body)
            assert SECRET not in reply.text
            if rest == "/history" and is_shared:
                assert reply.json() == {"items": [], "nextCursor": None}
            else:
                assert_problem(reply, 404, code)
            assert made.is_untouched()

    return check


def _writes_for_itself(method: str, rest: str, **request: Any) -> Check:
    def check(other: Product, theirs: Theirs) -> None:
        alone = _Record(theirs.owner, other, is_shared=False)
        reply = other.http.request(method, alone.records + rest, **request)
        assert_problem(reply, 404, "collection_not_found")
        made = _Record(theirs.owner, other, is_shared=True)
        reply = other.http.request(method, made.records + rest, **request)
        assert reply.status_code in {200, 201}, reply.text
        assert SECRET not in reply.text
        assert made.is_untouched()

    return check


_LINE = {"content": b'{"id": "r1", "plan": "mine"}\n'}
_BATCH = {"items": [{"op": "create", "id": "r1", "fields": {"plan": "mine"}}]}
RECORD_ISOLATION: dict[str, Check] = {
    "createRecord": _writes_for_itself("POST", "", json={"id": "r1", "plan": "mine"}),
    "listRecords": _writes_for_itself("GET", ""),
    "exportRecords": _writes_for_itself("GET", "/export"),
    "writeRecords": _writes_for_itself("POST", "/batch", json=_BATCH),
    "importRecords": _writes_for_itself(
        "POST", "/import", headers={"Content-Type": "application/x-ndjson"}, **_LINE
    ),
    "showRecord": _cannot_reach("GET"),
    "replaceRecord": _cannot_reach("PUT", body={"plan": "mine"}),
    "changeRecord": _cannot_reach("PATCH", body={"plan": "mine"}),
    "deleteRecord": _cannot_reach("DELETE"),
    "listRecordChanges": _cannot_reach("GET", "/history"),
}
