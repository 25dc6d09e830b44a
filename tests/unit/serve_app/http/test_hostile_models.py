"""Whatever comes as a cursor or as the body of a gather is read or refused in words."""

import base64
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from core.gathers.gather import Resource
from core.shared.errors import InvalidError
from serve_app.gathers.models import GatherRequest, ResourceRequest
from serve_app.http import cursors
from tests.support.hostile_input import RAW, TEXTS, VALUES, as_json, is_storable, nearly

MANY = settings(max_examples=150)
CURSORS = (
    TEXTS
    | RAW.map(lambda raw: base64.urlsafe_b64encode(raw).decode())
    | st.from_regex(r"[0-9]{1,20}\.?[0-9]{0,20}", fullmatch=True)
)
RESOURCE: dict[str, Any] = {
    "url": "http://127.0.0.1:9/ask",
    "method": "POST",
    "headers": {"X-A": "b"},
    "auth": {"type": "basic", "username": "u", "password": "p"},
    "connectTimeoutMs": 100,
    "readTimeoutMs": 100,
    "ratePerMinute": 5,
    "concurrency": 2,
    "reply": "callback",
}
GATHER: dict[str, Any] = {
    "resources": ["resource-1", RESOURCE | {"name": "inline"}],
    "context": {"a": 1},
    "timeoutMs": 1000,
    "mode": "wait",
}


@MANY
@given(CURSORS)
def test_any_cursor(text: str) -> None:
    for read in (
        cursors.read_wait_cursor,
        cursors.read_id_cursor,
        cursors.read_group_cursor,
        cursors.read_group_job_cursor,
    ):
        try:
            found: Any = read(text)
        except InvalidError:
            continue
        parts = found if isinstance(found, tuple) else (found,)
        assert all(is_storable(part) for part in parts if isinstance(part, str))
        assert all(abs(part) < 2**63 for part in parts if isinstance(part, int | float))


@MANY
@given(nearly(RESOURCE) | VALUES)
def test_any_resource(data: Any) -> None:
    try:
        resource = ResourceRequest.model_validate(data).to_resource()
    except ValidationError:
        return
    assert is_storable(resource.url)
    assert is_storable(resource.authorization)
    assert all(is_storable(text) for pair in resource.headers.items() for text in pair)
    assert msgspec.json.decode(msgspec.json.encode(resource), type=Resource) == resource


@MANY
@given(
    nearly(GATHER)
    | nearly(RESOURCE).map(lambda one: GATHER | {"resources": [one | {"name": "inline"}]})
    | VALUES
)
def test_any_gather(data: Any) -> None:
    try:
        gather = GatherRequest.model_validate(data)
    except ValidationError:
        return
    if b"\\ud" not in as_json(data):  # half a character is refused before it gets here
        gather.to_spec("trace")
