"""Server-sent events, decoded from bytes.

Not from a library: the usual line splitters also break at U+2028, which may stand in JSON text,
while the format has three line ends only.
"""

import json
import re
from codecs import getincrementaldecoder
from dataclasses import dataclass
from typing import Any

_LINE_END = re.compile(r"\r\n|\r|\n")
_MAX_PENDING = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event of a stream."""

    kind: str
    event_id: str | None
    text: str

    def data(self) -> dict[str, Any]:
        """Return the JSON object of the event; empty if it carries something else."""
        try:
            document = json.loads(self.text)
        except ValueError:
            return {}
        return document if isinstance(document, dict) else {}


class EventDecoder:
    """Decodes chunks to whole events; `retry` is the pause the server asked for, in seconds."""

    def __init__(self) -> None:
        self.retry: float | None = None
        self._text = getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._kind = ""
        self._id: str | None = None
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that this chunk completes."""
        self._pending += self._text.decode(chunk)
        if len(self._pending) > _MAX_PENDING:
            raise ValueError("the stream sent a line without an end")
        events: list[ServerEvent] = []
        while (line := self._next_line()) is not None:
            if line:
                self._read(line)
            elif (event := self._dispatch()) is not None:
                events.append(event)
        return events

    def _next_line(self) -> str | None:
        end = _LINE_END.search(self._pending)
        # A carriage return at the very end may be half of a pair.
        if end is None or (end.group() == "\r" and end.end() == len(self._pending)):
            return None
        line, self._pending = self._pending[: end.start()], self._pending[end.end() :]
        return line

    def _read(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._kind = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isascii() and value.isdigit():
                self.retry = int(value) / 1000
            case _:  # a comment (empty name) or a field to come
                pass

    def _dispatch(self) -> ServerEvent | None:
        event = ServerEvent(self._kind or "message", self._id, "\n".join(self._data))
        carries_data = bool(self._data)
        self._kind, self._id, self._data = "", None, []
        return event if carries_data else None
