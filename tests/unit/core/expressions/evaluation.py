"""Evaluates expressions in tests."""

from typing import Any

from handlers.filters.expressions import compile_expression

RECORD: dict[str, Any] = {
    "status": "open", "total": 12, "price": 2.5, "paid": True, "tags": ["x", "y"], "none": None,
    "nested": {"deep": {"n": 1}}, "empty": "", "due": "2026-01-31",
}  # fmt: skip
SCOPE: dict[str, Any] = {
    "record": RECORD, "previous": {"status": "new", "total": 3}, "changed": ["status"],
    "now": "2026-11-18T10:00:00Z", "user": "jo", "vars": {"n": 7}, "ctx": None,
}  # fmt: skip


def evaluate(text: str, record: dict[str, Any] | None = None) -> Any:
    known = RECORD if record is None else record
    return compile_expression(text).evaluate(known.get, {**SCOPE, "record": known})
