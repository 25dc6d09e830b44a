"""The requests that callers make: register a wait, call back."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from cli.shell.client import Client

SERVICE = "external-service"
TOPIC = "process.completed"
REGISTER_PATH = "/api/wait-states"
CALLBACK_PATH = f"/api/internal/callbacks/{SERVICE}"
LONG_TIMEOUT, SHORT_TIMEOUT = 900.0, 1.5  # seconds until a wait gives up
API_CALL = {"url": "http://127.0.0.1:9/process"}
API_WAIT: Mapping[str, Any] = {"apiCall": API_CALL, "timeout": LONG_TIMEOUT}
CorrelationKey: TypeAlias = tuple[str, str]
"""Execution id and correlation id."""


def registration(key: CorrelationKey, data: Mapping[str, Any] = API_WAIT) -> dict[str, Any]:
    """Build the body of a registration."""
    return {"executionId": key[0], "correlationId": key[1], "nodeId": "wait", "data": data}


def event_headers(key: CorrelationKey, event_id: str | None = None) -> dict[str, str]:
    headers = {"X-Execution-Id": key[0], "X-Correlation-Id": key[1]}
    return headers if event_id is None else headers | {"X-Event-Id": event_id}


async def register(
    client: Client, key: CorrelationKey, data: Mapping[str, Any] = API_WAIT
) -> CorrelationKey:
    await client.post(REGISTER_PATH, registration(key, data))
    return key


async def call_back(
    client: Client,
    key: CorrelationKey,
    event_id: str | None,
    body: Any,
    *,
    path: str = CALLBACK_PATH,
) -> Any:
    return await client.post(path, body, event_headers(key, event_id))
