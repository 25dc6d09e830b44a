"""Made-up requests, kept from calling anybody and from filling the machine with processes."""

import re
from typing import Any

from core.dispatch.subscription import is_code

NOWHERE = "http://127.0.0.1:9/"
_URL = re.compile(r"https?://[^\s/?#@\\]+(/[^\s#\\]*)?(\?[^\s#\\]*)?")
_ADDRESSES = frozenset({"target", "targetUrl", "url"})


def lead_nowhere(body: Any) -> None:
    """Put an address on loopback where there is one that may be called; the rest stays wrong."""
    if isinstance(body, list):
        for item in body:
            lead_nowhere(item)
    if not isinstance(body, dict):
        return
    for name, value in body.items():
        if name in _ADDRESSES and isinstance(value, str) and _may_be_called(value):
            body[name] = NOWHERE
        else:
            lead_nowhere(value)


def _may_be_called(text: str) -> bool:
    return len(text) <= 2_000 and text.isprintable() and _URL.fullmatch(text) is not None


def make_one_pool(path: str, body: Any) -> None:
    """All pools that are made up are the same one: each is a process."""
    if not isinstance(body, dict):
        return
    if path.endswith("/dispatch-pools/sync") and isinstance(body.get("dryRun", True), bool):
        body["dryRun"] = True
    code = body.get("code")
    if path == "/api/dispatch-pools" and isinstance(code, str) and is_code(code):
        body["code"] = "made-up"
