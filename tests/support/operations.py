"""Every operation of the OpenAPI document: a new route is covered by being there."""

from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.product import Product

# What means nothing and yet looks as it must.
_PARAMETERS = {
    "application": "nobody",
    "code": "nobody:has:this:one",
    "version": "999.9",
    "schemaId": "sch_0000000000000",
    "eventId": "0000000000000",
    "jobId": "0000000000000",
    "severity": "INFO",
    "warningId": "999999999",
}


@dataclass(frozen=True)
class Operation:
    """One operation of the document."""

    name: str
    method: str
    path: str
    permission: str | None
    takes_token: bool

    def call(self, http: httpx.Client, **options: Any) -> httpx.Response:
        """Call it with ids that mean nothing."""
        path = self.path
        for number in ("{inboxId}", "{letterId}"):
            path = path.replace(number, "999999999")
        for name in ("executionId", "correlationId", "service", "topic", "prefix", "id", "name"):
            path = path.replace(f"{{{name}}}", "nobody")
        for name, value in _PARAMETERS.items():
            path = path.replace(f"{{{name}}}", value)
        assert "{" not in path, f"{self.name} has a parameter that is not known here"
        return http.request(self.method, path, **options)


def operations_of(product: Product) -> dict[str, Operation]:
    """All of them by their ids."""
    document = product.http.get("/openapi.json").json()
    found = [
        Operation(
            name=operation["operationId"],
            method=method.upper(),
            path=path,
            permission=operation.get("x-permission"),
            takes_token={"callbackToken": []} in operation.get("security", []),
        )
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return {operation.name: operation for operation in found}
