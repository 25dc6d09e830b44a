"""JSON Schema: draft-07 unless the schema names another draft. Nothing is ever fetched."""

import hashlib
from collections.abc import Sequence
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec

from core.events.event_type import SchemaType
from core.shared.json_limits import is_deeper
from core.shared.media_types import is_json_type, media_type
from handlers.schemas.interface import (
    MAX_MISMATCHES,
    CompiledSchema,
    CompileResult,
    Mismatch,
    PayloadCheck,
    invalid_schema,
    mismatch,
)
from handlers.schemas.json_cost import estimate_cost

MAX_NESTING = 64
# The library finds all mismatches before it returns the first: of larger payloads one must do.
MAX_LISTED = 4_096

_DRAFTS: dict[str, type[jsonschema_rs.Validator]] = {
    "http://json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
    "http://json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema_rs.Draft202012Validator,
}
# Replaces the values of a payload in messages, which others may read.
_MASK = "value"
_MEGABYTE = 1 << 20
_LINEAR = jsonschema_rs.RegexOptions(size_limit=4 * _MEGABYTE, dfa_size_limit=_MEGABYTE)
# Look-around and back-references need the backtracking engine, whose effort is limited.
_BACKTRACKING = jsonschema_rs.FancyRegexOptions(
    backtrack_limit=20_000, size_limit=4 * _MEGABYTE, dfa_size_limit=_MEGABYTE
)


def compile(text: str) -> CompileResult:
    try:
        schema = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        return invalid_schema(f"not JSON: {error}")
    except RecursionError:
        return invalid_schema(f"nested deeper than {MAX_NESTING} levels")
    if not isinstance(schema, dict | bool):
        return invalid_schema("a JSON Schema is an object, true or false")
    if is_deeper(schema, MAX_NESTING):
        return invalid_schema(f"nested deeper than {MAX_NESTING} levels")
    if _draft_of(schema) is None:
        return invalid_schema(f"$schema must be one of {', '.join(sorted(_DRAFTS))}")
    linear = True
    try:
        try:
            _build(schema, _LINEAR)
        except jsonschema_rs.ValidationError:
            _build(schema, _BACKTRACKING)
            linear = False
    except jsonschema_rs.ValidationError as error:
        return invalid_schema(_reason(error))
    except (jsonschema_rs.ReferencingError, ValueError) as error:
        return invalid_schema(str(error))
    form = text.encode()
    key = hashlib.sha256(b"json" + form).digest()
    return CompiledSchema(
        SchemaType.JSON_SCHEMA, form, key, estimate_cost(schema) if linear else None
    )


def load(form: bytes) -> PayloadCheck:
    schema = msgspec.json.decode(form)
    try:
        validator = _build(schema, _LINEAR, _MASK)
    except jsonschema_rs.ValidationError:
        validator = _build(schema, _BACKTRACKING, _MASK)

    def check(payload: bytes, content_type: str) -> list[Mismatch]:
        document = read_json(payload, content_type)
        if isinstance(document, Mismatch):
            return [document]
        try:
            if validator.is_valid(document.value):
                return []
            return _mismatches(validator, document.value, every=len(payload) <= MAX_LISTED)
        except ValueError as error:
            return [mismatch("", str(error))]

    return check


class JsonDocument(msgspec.Struct):
    value: Any


def read_json(payload: bytes, content_type: str) -> JsonDocument | Mismatch:
    """Decode a payload, or say why it cannot be decoded."""
    if not is_json_type(content_type):
        return mismatch("", f"application/json, not {media_type(content_type) or 'nothing'}")
    try:
        return JsonDocument(msgspec.json.decode(payload))
    except (msgspec.DecodeError, UnicodeError) as error:
        return mismatch("", f"readable JSON: {error}")
    except RecursionError:
        return mismatch("", "JSON that is not nested so deeply")


def dotted(path: Sequence[str | int]) -> str:
    """Format a path in a document as people write it."""
    steps = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(steps).removeprefix(".")


def _build(
    schema: Any,
    patterns: jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions,
    mask: str | None = None,
) -> jsonschema_rs.Validator:
    draft = _draft_of(schema) or jsonschema_rs.Draft7Validator
    return draft(schema, pattern_options=patterns, offline=True, mask=mask)


def _draft_of(schema: Any) -> type[jsonschema_rs.Validator] | None:
    named = schema.get("$schema") if isinstance(schema, dict) else None
    if named is None:
        return jsonschema_rs.Draft7Validator
    return _DRAFTS.get(named.rstrip("#")) if isinstance(named, str) else None


def _mismatches(
    validator: jsonschema_rs.Validator, document: Any, *, every: bool
) -> list[Mismatch]:
    if every:
        return [
            _mismatch(error) for error in islice(validator.iter_errors(document), MAX_MISMATCHES)
        ]
    try:
        validator.validate(document)
    except jsonschema_rs.ValidationError as error:
        return [_mismatch(error)]
    return [mismatch("", "a value that the schema allows")]


def _mismatch(error: jsonschema_rs.ValidationError) -> Mismatch:
    return mismatch(dotted(error.instance_path), error.message)


def _reason(error: jsonschema_rs.ValidationError) -> str:
    place = dotted(error.instance_path)
    return f"{place}: {error.message}" if place else error.message
