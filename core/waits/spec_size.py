"""Estimates the memory of a decoded spec from its text, never much too low."""

# Bytes of one value in CPython, with the reference to it in its container.
_LIST, _DICT, _VALUE = 72, 240, 72
# Bytes of the spec object with its cached values.
_BASE = 2_000


def estimate_spec_bytes(text: bytes, unread: bytes) -> int:
    """Estimate the bytes of a spec; `unread` is the part of its text that was not decoded.

    The punctuation of JSON is counted, inside strings too, so the estimate is rather too high.
    """
    return _BASE + 2 * len(text) + _objects(text) - _objects(unread)


def _objects(text: bytes) -> int:
    lists, dicts = text.count(b"["), text.count(b"{")
    return _LIST * lists + _DICT * dicts + _VALUE * (text.count(b",") + text.count(b":"))
