"""How far one look goes where no index serves what is looked for."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

LOOKS = 100_000
"""Rows that one look reads at most, however few of them are what is looked for."""


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """What a look found, in order."""

    items: list[T]
    looked_to: str | None = None
    """The last key it read, where more lie behind it that it did not read."""
