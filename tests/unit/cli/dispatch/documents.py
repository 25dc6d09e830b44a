"""A job as Muster answers with it, and what was sent to it."""

import json
from typing import Any

from tests.support.command_line import FakeMuster

ID = "0PJ3F6SK81VB8"
JOBS = "/api/dispatch-jobs"
JOB: dict[str, Any] = {
    "id": ID,
    "kind": "EVENT",
    "code": "shop:orders:order:created",
    "source": "shop",
    "subject": None,
    "eventId": "0PJ3F6SK81VB0",
    "subscriptionId": "sub_0PJ3F6SK81VB0",
    "messageGroup": "billing:customer-4",
    "mode": "BLOCK_ON_ERROR",
    "sequence": 99,
    "dispatchPoolCode": "default",
    "hasAuth": True,
    "metadata": [{"key": "a", "value": "b"}],
    "status": "ERROR",
    "ignored": False,
    "attemptCount": 3,
    "maxRetries": 3,
    "timeoutSeconds": 30,
    "targetUrl": "http://127.0.0.1:9/hook",
    "createdAt": "2030-01-01T00:00:00Z",
    "lastAttemptAt": "2030-01-01T00:00:09Z",
    "lastError": "HTTP 500",
    "durationMillis": None,
}


def sent(muster: FakeMuster, place: int = -1) -> Any:
    """The body of a request: the last one, unless said otherwise."""
    return json.loads(muster.requests[place].content)
