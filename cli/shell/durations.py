"""Durations as people write and read them."""

import re
from datetime import timedelta

from cli.shell.errors import InputError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_MAX_DURATION = timedelta(days=100 * 365)


def parse_duration(text: str) -> timedelta:
    """Read `90`, `90s`, `30d` or `1h30m`; a bare number means seconds."""
    compact = text.strip().lower().replace(" ", "")
    if re.fullmatch(r"\d+(\.\d+)?", compact):
        compact += "s"
    if not re.fullmatch(f"(?:{_PART.pattern})+", compact):
        raise InputError(f"'{text}' is not a duration: write for example 90s, 15m, 12h or 30d.")
    try:
        length = sum(
            (timedelta(**{_UNITS[unit]: float(amount)}) for amount, unit in _PART.findall(compact)),
            timedelta(),
        )
    except OverflowError:
        length = timedelta.max
    if not timedelta() < length <= _MAX_DURATION:
        raise InputError(f"'{text}' must be more than 0 and at most 100 years.")
    return length


def format_duration(seconds: float) -> str:
    """Write a duration by its two biggest units, as in `2d 3h` or `1.5s`."""
    if seconds < 60:
        return f"{max(0.0, seconds):.1f}s" if seconds < 10 else f"{seconds:.0f}s"
    left = round(seconds)
    parts: list[tuple[int, str]] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        amount, left = divmod(left, size)
        if amount or parts:
            parts.append((amount, unit))
    return " ".join(f"{amount}{unit}" for amount, unit in parts[:2] if amount)
