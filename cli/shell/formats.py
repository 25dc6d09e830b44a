"""How single values are shown: moments, numbers, words with colours, JSON data."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.text import Text

from cli.shell.client import Document

Format = Callable[[Any], str | Text]
_ONE_LINE = 120
_SHORT_LINE = 60
_VERDICT_STYLES = {"matched": "bold green", "buffered": "bold cyan", "duplicate": "bold yellow"}
WAIT_STATUS_STYLES = {
    "waiting": "cyan",
    "completed": "green",
    "timeout": "red",
    "failed": "red",
    "cancelled": "yellow",
}


@dataclass(frozen=True, slots=True)
class RightAligned:
    """A format whose column is aligned to the right."""

    render: Format

    def __call__(self, value: Any) -> str | Text:
        return self.render(value)


def text(value: Any) -> str:
    """Show any value as it is, lists with commas."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(map(str, value))
        case _:
            return str(value)


def dim(value: str) -> Text:
    return Text(value, style="dim")


def styled(styles: Mapping[str, str], other: str = "") -> Format:
    """Colour a word by what it says."""

    def render(value: Any) -> Text:
        word = "" if value is None else str(value)
        return Text(word, style=styles.get(word, other))

    return render


def either(yes: str | Text, no: str | Text) -> Format:
    """Show a truth value by one of two words."""
    return lambda value: yes if value else no


def error(value: Any) -> Text:
    return Text(str(value or ""), style="red")


def short_line(value: Any) -> str:
    """Put a text on one line and cut it where a table would become too wide."""
    return _cut(" ".join(str(value or "").split()), _SHORT_LINE)


def one_line(value: Any) -> str:
    """Show JSON data on one line, cut at its end."""
    return "" if value is None else _cut(json.dumps(value, ensure_ascii=False), _ONE_LINE)


def pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def payload(value: Any, encoding: str, missing: str) -> Text:
    """Show data as the API encodes it, or the sentence `missing` if there is none."""
    match encoding:
        case "none":
            return dim(missing)
        case "json":
            return Text(pretty(value))
        case "base64":
            return Text(f"{value}  (base64: not JSON)")
        case _:
            return Text(str(value))


def whole_line(value: Any) -> str:
    """Show JSON data on one line, however long it is."""
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def header_lines(value: Any) -> str:
    return "\n".join(f"{name}: {text}" for name, text in (value or {}).items())


def auth_type(auth: Any) -> str:
    return str((auth or {}).get("type", ""))


def key_values(value: Any) -> str:
    """Show the API's `[{"key": …, "value": …}]`."""
    return ", ".join(f"{one['key']}={one['value']}" for one in value or ())


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


def length(value: Any) -> str:
    """Show seconds as `2d 3h`; nothing for none and for zero."""
    return format_duration(value) if value else ""


def age(value: Any) -> str:
    """Show how long ago a moment was."""
    moment_ = _moment(value)
    return "" if moment_ is None else format_duration(time.time() - moment_.timestamp())


def moment(value: Any) -> str:
    """Show an RFC 3339 moment on the clock of this machine."""
    moment_ = _moment(value)
    return str(value or "") if moment_ is None else moment_.strftime("%Y-%m-%d %H:%M:%S")


def clock_time(value: Any) -> str:
    """Show the time of day on the clock of this machine, to the millisecond."""
    moment_ = _moment(value)
    return " " * len("00:00:00.000") if moment_ is None else moment_.strftime("%H:%M:%S.%f")[:-3]


def verdict_line(reply: Document) -> Text:
    """Write the verdict on an event, the reason, and the status of the wait."""
    verdict = str(reply.get("verdict"))
    line = Text(verdict, style=_VERDICT_STYLES.get(verdict, "bold red"))
    line.append(f"  {reply.get('detail') or reply.get('reason')}", style="default")
    if reply.get("waitStatus"):
        line.append(f"  (the wait is {reply['waitStatus']})", style="dim")
    return line


@RightAligned
def number(value: Any) -> str:
    """Show a count as people read it; nothing where there is none."""
    return "" if value is None else f"{value:,}"


@RightAligned
def percent(value: Any) -> str:
    return f"{(value or 0) * 100:.0f} %"


@RightAligned
def milliseconds(value: Any) -> str:
    return "" if value is None else f"{value:.0f} ms"


up_or_down = either(Text("up", style="green"), Text("down", style="bold red"))

# When a resource was created and changed, as columns.
TIMES = (("created", "createdAt", moment), ("changed", "updatedAt", moment))


def _moment(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(value)).astimezone() if value else None
    except ValueError:
        return None


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"
