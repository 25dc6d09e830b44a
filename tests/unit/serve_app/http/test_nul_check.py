"""A NUL in a path, a query or a text of a body is refused by name; free JSON may have it."""

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel
from pydantic.alias_generators import to_camel

from serve_app.http.json_io import parse_as
from serve_app.http.nul_check import check_url
from serve_app.http.problems import ProblemError


class Inner(BaseModel):
    note: str | None = None
    tags: list[str] = []
    headers: dict[str, str] = {}


class Outer(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)

    first_name: str = "x"
    inner: Inner = Field(default_factory=Inner)
    data: Any = None
    filter: dict[str, Any] = {}


class Many(RootModel[list[Outer]]):
    pass


def faults(raw: bytes, model: type[BaseModel] = Outer) -> list[str]:
    with pytest.raises(ProblemError) as raised:
        parse_as(model, raw)
    assert raised.value.problem.status == 422
    return [fault.field for fault in raised.value.problem.field_errors]


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (rb'{"firstName":"a\u0000b"}', "firstName"),
        (rb'{"inner":{"note":"\u0000"}}', "inner.note"),
        (rb'{"inner":{"tags":["a","\u0000"]}}', "inner.tags[1]"),
        (rb'{"inner":{"headers":{"X":"\u0000"}}}', "inner.headers.X"),
        (rb'{"inner":{"headers":{"X\u0000":"1"}}}', "inner.headers"),
    ],
)
def test_a_text_with_a_nul_is_named(raw: bytes, field: str) -> None:
    assert faults(raw) == [field]
    assert faults(b"[{},%s]" % raw, Many) == [f"[1].{field}"]


def test_free_json_may_have_it() -> None:
    raw = rb'{"data":{"a":"\u0000"},"filter":{"b":["\u0000"]}}'
    assert parse_as(Outer, raw).data == {"a": "\x00"}


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("/api/resources/a\x00b", b"", "path"),
        ("/api/resources", b"limit=5&cursor=%00", "cursor"),
        ("/api/resources", b"a%00b=1", "ab"),
        ("/api/resources", b"%00", "query"),
    ],
)
def test_an_address_with_a_nul_is_refused(path: str, query: bytes, field: str) -> None:
    with pytest.raises(ProblemError) as raised:
        check_url({"path": path, "query_string": query})
    problem = raised.value.problem
    assert (problem.status, [fault.field for fault in problem.field_errors]) == (422, [field])


def test_any_other_address_passes() -> None:
    check_url({"path": "/api/resources/a", "query_string": b"cursor=%01&x=%2500"})
