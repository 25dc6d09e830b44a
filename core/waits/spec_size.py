"""How many bytes a decoded spec holds: an estimate from its text, never much too low."""

# Of the objects that stand for one value in CPython, with their place in what holds them.
_LIST, _DICT, _VALUE = 72, 240, 72
# Of the spec itself, with what is worked out of it.
_BASE = 2_000


def estimate_spec_bytes(text: bytes, unread: bytes) -> int:
    """The bytes that a spec of this text holds, of which the part `unread` was not decoded.

    Values are counted by what stands between them; such marks inside of strings count as well,
    which errs on the safe side.
    """
    return _BASE + 2 * len(text) + _objects(text) - _objects(unread)


def _objects(text: bytes) -> int:
    lists, dicts = text.count(b"["), text.count(b"{")
    return _LIST * lists + _DICT * dicts + _VALUE * (text.count(b",") + text.count(b":"))
