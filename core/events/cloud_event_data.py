"""Reads the data of an event: its bytes and their media type."""

import base64
import binascii
from typing import Any, NamedTuple

import msgspec

from core.shared.errors import InvalidError
from core.shared.json_limits import MAX_DEPTH, is_deeper
from core.shared.json_path import NOT_JSON
from core.shared.media_types import BYTES, JSON, is_json_type

_decode = msgspec.json.Decoder().decode


class EventData(NamedTuple):
    """The original bytes and their media type; None if there is no data."""

    content: bytes | None
    content_type: str | None


def from_json(member: bytes, declared: str | None, *, structured: bool) -> EventData:
    """Read the field `data` of a JSON object.

    If the declared type is not JSON, a string is the data. In plain JSON, a string may also
    contain a JSON document.
    """
    if member == b"null":
        return EventData(None, declared)
    if declared is not None and not is_json_type(declared):
        return EventData(_text(member, declared).encode(), declared)
    content = member
    if not structured and member[:1] == b'"':
        inner = _document_in(_checked("data", member))
        content = member if inner is None else inner
    _checked("data", content)
    return EventData(content, declared or JSON)


def from_base64(name: str, member: bytes, declared: str | None) -> EventData:
    """Read the field `data_base64` of a JSON object."""
    try:
        content = base64.b64decode(msgspec.json.decode(member, type=str), validate=True)
    except (msgspec.DecodeError, UnicodeDecodeError, binascii.Error, ValueError):
        raise InvalidError(name, "bytes in base64") from None
    return from_body(name, content, declared)


def from_body(name: str, content: bytes, declared: str | None) -> EventData:
    """Read bytes of the declared type; without one, find out whether they are JSON."""
    if declared is None:
        try:
            _checked(name, content)
        except InvalidError:
            return EventData(content, BYTES)
        return EventData(content, JSON)
    if is_json_type(declared):
        _checked(name, content)
    return EventData(content, declared)


def _text(member: bytes, declared: str) -> str:
    document = _checked("data", member)
    if not isinstance(document, str):
        raise InvalidError("data", f"a text, since datacontenttype is {declared}; or data_base64")
    return document


def _document_in(text: str) -> bytes | None:
    """Return the text as bytes if it is a JSON object or list, or None."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        _decode(text)
    except NOT_JSON:
        return None
    return text.encode()


def _checked(name: str, content: bytes) -> Any:
    """Decode JSON; raise InvalidError if it is malformed or nested too deeply."""
    try:
        document = _decode(content)
    except NOT_JSON as error:
        raise InvalidError(name, f"JSON: {error}") from None
    # Counting brackets is much cheaper than a walk and enough for most documents.
    if content.count(b"[") + content.count(b"{") > MAX_DEPTH and is_deeper(document, MAX_DEPTH):
        raise InvalidError(name, f"JSON that is nested at most {MAX_DEPTH} levels deep")
    return document
