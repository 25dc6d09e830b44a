"""Whatever comes as a configuration, a path or a token is taken or refused in words."""

import contextlib
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from core.access.tokens import TokenHolder, sign, verify
from core.shared.address import Address
from core.shared.errors import InvalidError
from core.shared.json_path import MISSING, find, parse_path, without, without_path
from core.waits.config import WaitConfig
from core.waits.spec import decode_spec, encode_spec
from tests.support.hostile_input import RAW, TEXTS, VALUES, damaged, is_storable, nearly

EVENT: dict[str, Any] = {
    "enabled": True,
    "correlationIdField": "data.ids[0].ref",
    "executionIdField": "execution_id",
    "correlationIdHeader": "X-Correlation-Id",
    "executionIdHeader": "X-Execution-Id",
    "timeout": 10,
    "required": True,
}
CALL = {"url": "http://127.0.0.1:9/process", "method": "POST", "headers": {}, "body": {"a": 1}}
CONFIG: dict[str, Any] = {
    "apiCall": EVENT | CALL,
    "kafkaEvent": EVENT | {"topic": "orders", "filter": {"status": "ok"}},
    "events": [EVENT | {"name": "further"}],
    "aggregationStrategy": "all",
    "requiredEvents": ["api_response"],
    "timeout": 300,
    "onTimeout": "fail",
    "outputMapping": {"a": "api_response.b"},
}
# One part is nearly right, and all the rest is.
CONFIGS = (
    nearly(CONFIG)
    | nearly(CONFIG["apiCall"]).map(lambda part: CONFIG | {"apiCall": part})
    | nearly(CONFIG["kafkaEvent"]).map(lambda part: CONFIG | {"kafkaEvent": part})
    | st.lists(nearly(CONFIG["events"][0]), max_size=3).map(lambda some: CONFIG | {"events": some})
)
MANY = settings(max_examples=150, suppress_health_check=list(HealthCheck))


@MANY
@given(CONFIGS | VALUES)
@example(CONFIG | {"apiCall": EVENT | CALL | {"correlationIdField": "a\x00b"}})
def test_any_wait_configuration(data: Any) -> None:
    try:
        config = WaitConfig.model_validate(data)
    except ValidationError:
        return
    spec = config.to_spec()
    raw = encode_spec(spec)
    assert decode_spec(raw) == spec
    for event in spec.events:
        names = (event.name, event.label, event.ids.correlation_field, event.ids.execution_field)
        assert all(is_storable(name) for name in names)
    with contextlib.suppress(InvalidError):
        config.published_to(None)


@MANY
@given(TEXTS, VALUES)
@example("a" + "[0]" * 84, [])
def test_any_path(path: str, document: Any) -> None:
    steps = parse_path(path)
    assert steps is None or all(isinstance(step, str | int) for step in steps)
    found = find(document, path)
    left = without_path(document, path)
    if found is MISSING:
        assert repr(left) == repr(document)
    without(document, [path])


@MANY
@given(TEXTS | RAW.map(lambda raw: raw.decode("latin-1")), st.text(max_size=10))
def test_any_token(token: str, purpose: str) -> None:
    assert verify(token, 0.0, [b"secret"], purpose) is None


@MANY
@given(damaged(sign(Address(1, "e", "c"), 1e9, b"secret", source="payer").encode()))
def test_a_token_that_was_damaged(raw: bytes) -> None:
    whole = sign(Address(1, "e", "c"), 1e9, b"secret", source="payer")
    token = raw.decode("latin-1")
    found = verify(token, 0.0, [b"secret"])
    if token.rstrip("=") != whole:
        # The last character has bits that mean nothing; nothing else may differ.
        assert found is None or token[:-1] == whole[:-1]
    else:
        assert found == TokenHolder(Address(1, "e", "c"), "payer")
