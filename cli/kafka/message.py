"""A message as it is typed, and as it is sent."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cli.shell.errors import InputError
from cli.shell.json_input import read_json_text
from cli.shell.options import option
from cli.shell.parsing import parse_pairs

NUMBER_PLACEHOLDER = b"{n}"


@dataclass(frozen=True, slots=True)
class ProducerMessage:
    """A message to send."""

    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    def copies(self, count: int) -> Iterator["ProducerMessage"]:
        """Yield the message `count` times; of several, each has its number in the place of {n}."""
        if count == 1:
            yield self
            return
        for number in range(1, count + 1):
            text = str(number).encode()
            yield ProducerMessage(
                self.value.replace(NUMBER_PLACEHOLDER, text),
                self.key.replace(NUMBER_PLACEHOLDER, text) if self.key is not None else None,
                tuple(
                    (name, value.replace(NUMBER_PLACEHOLDER, text)) for name, value in self.headers
                ),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceOptions:
    """The message to send, as it was typed."""

    data: str | None = option("Value: JSON, @file, or - for standard input.", "--data", "-d")
    file: Path | None = option("Value: the bytes of this file, unchanged.")
    key: str | None = option("Key; messages with the same key keep their order.")
    header: list[str] | None = option("A header; repeatable.", metavar="NAME=VALUE")
    count: int = option(
        "How many messages; {n} becomes the number of each.", default=1, min=1, max=10_000_000
    )

    def message(self) -> ProducerMessage:
        """Return the message.

        Raises:
            InputError: It cannot be sent.
        """
        key = None if self.key is None else self.key.encode()
        return ProducerMessage(self._value(), key, self._headers())

    def _value(self) -> bytes:
        if self.file is None:
            return read_json_text("{}" if self.data is None else self.data).encode()
        if self.data is not None:
            raise InputError("Give --data or --file, not both.")
        try:
            return self.file.read_bytes()
        except OSError as error:
            raise InputError(f"Cannot read {self.file}: {error.strerror}.") from error

    def _headers(self) -> tuple[tuple[str, bytes], ...]:
        pairs = parse_pairs(self.header or (), "header")
        return tuple((name, value.encode()) for name, value in pairs)
