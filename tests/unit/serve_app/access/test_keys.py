from types import SimpleNamespace
from typing import Any

import msgspec

from serve_app.access.keys import list_keys


async def test_a_key_is_listed_without_the_fields_that_it_lacks() -> None:
    row: dict[str, Any] = {
        "prefix": "p",
        "name": "n",
        "permissions": ["waits:write", "waits:read"],
        "created_at": 0.0,
        "expires_at": None,
        "revoked_at": None,
        "last_used_at": 1.5,
        "created_by": None,
    }

    async def read(*_: Any) -> list[dict[str, Any]]:
        return [row]

    page = await list_keys(SimpleNamespace(list=read))  # type: ignore[arg-type]
    document = msgspec.json.decode(page.model_dump_json(by_alias=True))
    assert document == {
        "items": [
            {
                "prefix": "p",
                "name": "n",
                "permissions": ["waits:read", "waits:write"],
                "createdAt": "1970-01-01T00:00:00.000000Z",
                "lastUsedAt": "1970-01-01T00:00:01.500000Z",
            }
        ],
        "nextCursor": None,
    }
