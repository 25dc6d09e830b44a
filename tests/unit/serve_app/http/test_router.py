"""The declarative router: what it derives from a signature, and what it answers."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Annotated, Any

import httpx
import msgspec
import pytest
from fastapi import FastAPI, Path, Query
from fastapi.routing import APIRoute
from pydantic import Field
from starlette.types import Receive, Scope, Send

from core.access.permissions import Permission
from core.shared.refusal import CONFLICT, FORBIDDEN, INVALID, NOT_FOUND, Refusal
from serve_app.http import problems
from serve_app.http.fields import Cursor, IsoTime, Limit, MaskedHeaders
from serve_app.http.models import Patch, PayloadView, View, WireModel
from serve_app.http.openapi import build, requirement_of
from serve_app.http.page import CountedPage, Page
from serve_app.http.router import Context, HttpRouter, refuse
from serve_app.limits.middleware import REQUEST_SLOT

READ, WRITE = Permission.DISPATCH_READ, Permission.DISPATCH_WRITE


class CupRefusal(Refusal):
    """Why there is no such cup."""

    CUP_NOT_FOUND = NOT_FOUND, "there is no cup of this name"
    CUP_IS_FULL = CONFLICT, "this cup is full: empty it first"
    NOT_YOUR_CUP = FORBIDDEN, "this cup is somebody else's"
    NO_CUP = INVALID, "this is a spoon"


@dataclass(frozen=True)
class CupRow:
    cup_id: str
    code: str
    made_at: float
    headers: dict[str, str]


class CupRequest(WireModel):
    """A cup to make."""

    code: str
    size_in_ml: int = 200


class CupFields(WireModel):
    """The fields of a cup."""

    size: int = Field(200, ge=1)
    note: str | None = None


class CupPatch(Patch, CupFields):
    """Fields to change."""


class CupQuery(WireModel):
    """Which cups."""

    limit: Limit = 2
    cursor: Cursor = None


class CupView(View):
    """A cup."""

    id: str = Field(validation_alias="cup_id")
    code: str
    made_at: IsoTime
    headers: MaskedHeaders


ROW = CupRow("cup_1", "blue", 0.0, {"x-key": "secret"})
router = HttpRouter("/api/cups", tag="cups")
CupName = Annotated[str, Path(alias="id", pattern="^[a-z]+$")]


async def _find(_pool: object, tenant: int, name: str) -> CupRow | CupRefusal:
    known = {member.name.lower(): member for member in CupRefusal}
    return known.get(name.replace("x", "_"), ROW) if tenant == 7 else CupRefusal.NOT_YOUR_CUP


@router.post(needs=WRITE, refuses=CupRefusal, status=201)
async def create_big_cup(body: CupRequest, context: Context) -> CupView:
    """Make a cup."""
    row = CupRow(context.new_id("cup"), body.code, body.size_in_ml, {})
    return CupView.of(row)


@router.get(needs=READ)
async def list_big_cups(
    query: Annotated[CupQuery, Query()], context: Context
) -> CountedPage[CupView]:
    """List cups."""
    rows = [replace(ROW, cup_id=f"cup_{n}") for n in range(context.tenant)][: query.limit]
    return CountedPage[CupView].of_rows(rows, query.limit, lambda row: row.cup_id, total=7)


@router.post("/{id}/fill", needs=WRITE, refuses=CupRefusal)
async def fill_cup(name: CupName, context: Context) -> CupView:
    """Fill a cup."""
    row = await context.write(_find, name)
    return CupView.of(row)


@router.delete("/{id}", needs=WRITE, refuses=CupRefusal)
async def break_cup(name: CupName, context: Context) -> None:
    """Break a cup."""
    await context.read(_find, name) or refuse(CupRefusal.CUP_NOT_FOUND)


class LetterView(PayloadView):
    """A letter with stored JSON."""

    data: Any


@router.get("/{id}/letter", needs=READ, answers={200: LetterView}, refuses=(404,))
async def show_letter(name: CupName, context: Context) -> LetterView:
    """Show a letter."""
    return LetterView(data=msgspec.Raw(b'{"a":  1.10}'))


class _Slot:
    def assign_tenant(self, tenant: int) -> None:
        assert tenant == 7


class _Queries:
    async def query(self, query: Any, *args: Any) -> Any:
        return await query(None, *args)

    query_once = query


async def _caller(_authorization: str | None) -> Any:
    return SimpleNamespace(tenant=7, prefix="abc", permissions=frozenset(Permission))


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    app.router.routes.extend(router.routes)
    problems.install_handlers(app)
    replica = SimpleNamespace(
        keys=SimpleNamespace(caller=_caller),
        database=_Queries(),
        listings=_Queries(),
        config=SimpleNamespace(request_timeout=5.0),
        new_id=lambda: "0001",
    )
    denials = SimpleNamespace(note=lambda *_denied: None)
    setattr(app, "replica", replica)  # noqa: B010
    setattr(app, "counters", SimpleNamespace(denials=denials))  # noqa: B010

    async def with_slot(scope: Scope, receive: Receive, send: Send) -> None:
        scope[REQUEST_SLOT] = _Slot()
        await app(scope, receive, send)

    transport = httpx.ASGITransport(with_slot)
    async with httpx.AsyncClient(transport=transport, base_url="http://muster") as client:
        yield client


async def test_the_body_is_read_and_the_view_is_answered(http: httpx.AsyncClient) -> None:
    reply = await http.post("/api/cups", json={"code": "red", "sizeInMl": 60})
    assert reply.status_code == 201
    assert reply.headers["content-type"] == "application/json"
    assert reply.text == (
        '{"id":"cup_0001","code":"red","madeAt":"1970-01-01T00:01:00.000000Z","headers":{}}'
    )


async def test_a_body_that_breaks_a_rule_names_the_field(http: httpx.AsyncClient) -> None:
    reply = await http.post("/api/cups", json={"code": "red", "sizeInMl": "60"})
    assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, "sizeInMl")
    reply = await http.post("/api/cups", content=b"{", headers={"content-type": "text/plain"})
    assert reply.status_code == 415


async def test_a_row_becomes_its_view_and_secrets_are_masked(http: httpx.AsyncClient) -> None:
    reply = await http.post("/api/cups/blue/fill")
    assert reply.status_code == 200
    assert reply.json()["headers"] == {"x-key": "•••"}


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        (CupRefusal.CUP_NOT_FOUND, 404),
        (CupRefusal.CUP_IS_FULL, 409),
        (CupRefusal.NOT_YOUR_CUP, 403),
        (CupRefusal.NO_CUP, 422),
    ],
)
async def test_a_refusal_becomes_its_problem(
    http: httpx.AsyncClient, refusal: CupRefusal, status: int
) -> None:
    reply = await http.post(f"/api/cups/{refusal.code.replace('_', 'x')}/fill")
    assert reply.status_code == status
    assert reply.json()["code"] == refusal.code
    assert reply.json()["detail"] == refusal.sentence


async def test_a_page_has_one_shape(http: httpx.AsyncClient) -> None:
    page = (await http.get("/api/cups")).json()
    assert list(page) == ["items", "nextCursor", "total"]
    assert [one["id"] for one in page["items"]] == ["cup_0", "cup_1"]
    assert (page["nextCursor"], page["total"]) == ("cup_1", 7)
    assert (await http.get("/api/cups?limit=9")).json()["nextCursor"] is None
    assert Page[CupView].of({"items": [], "next_cursor": None}).model_dump(by_alias=True) == {
        "items": [],
        "nextCursor": None,
    }


async def test_none_is_no_content(http: httpx.AsyncClient) -> None:
    reply = await http.delete("/api/cups/blue")
    assert (reply.status_code, reply.content) == (204, b"")
    assert (await http.delete("/api/cups/BLUE")).status_code == 422


def test_everything_is_documented() -> None:
    app = FastAPI()
    app.router.routes.extend(router.routes)
    routes = [route for route in router.routes if isinstance(route, APIRoute)]
    document = build(app, routes)
    create = document["paths"]["/api/cups"]["post"]
    assert (create["operationId"], create["tags"]) == ("createBigCup", ["cups"])
    assert create["x-permission"] == "dispatch:write"
    assert create["description"] == "Make a cup."
    body = create["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    assert body == "#/components/schemas/CupRequest"
    assert {"CupRequest", "CupView", "CupPage"} <= set(document["components"]["schemas"])
    fill = document["paths"]["/api/cups/{id}/fill"]["post"]["responses"]
    assert {"200", "404", "409"} <= set(fill)
    assert "409" not in document["paths"]["/api/cups"]["get"]["responses"]
    permissions = [p.permission for r in routes if (p := requirement_of(r))]
    assert permissions == [WRITE, READ, WRITE, WRITE, READ]


def test_a_patch_says_something_and_clears_what_can_be_cleared() -> None:
    assert CupPatch.model_validate({"note": None}).values() == {"note": None}
    for wrong in ({}, {"size": None}):
        with pytest.raises(ValueError, match=r"at least one field|size cannot be null"):
            CupPatch.model_validate(wrong)
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        CupPatch.model_validate({"size": 0})


async def test_stored_json_is_passed_on_byte_for_byte(http: httpx.AsyncClient) -> None:
    reply = await http.get("/api/cups/blue/letter")
    assert (reply.status_code, reply.content) == (200, b'{"data":{"a":  1.10}}')
    assert reply.headers["Content-Type"] == "application/json"
