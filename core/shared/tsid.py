"""Ids that sort by time: 13 characters of Crockford's Base32.

42 bits of milliseconds, 10 bits of a process number, 12 bits of a counter. Each process leases its
number from Postgres, so that no two make the same id. If two have the same number all the same, as
after a restore, collisions are rare: in each millisecond the counter starts at random.
"""

import re
from collections.abc import Callable

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 13
PATTERN = rf"^[0-9A-F][{ALPHABET}]{{12}}$"
MAKERS = 1024
_COUNTER_BITS, _MAKER_BITS = 12, 10
_EPOCH = 1_577_836_800_000  # 2020-01-01 in milliseconds
# Encoding two characters at a time halves the steps.
_PAIRS = [high + low for high in ALPHABET for low in ALPHABET]
_LARGEST = (1 << 64) - 1
_pattern = re.compile(PATTERN.strip("^$"))


def is_tsid(text: str) -> bool:
    return _pattern.fullmatch(text) is not None


def first_at(seconds: float) -> str:
    """Return the smallest id that can be made at this time; older ids sort before it."""
    millis = max(0, int(seconds * 1000) - _EPOCH)
    return _text(min(_LARGEST, millis << (_COUNTER_BITS + _MAKER_BITS)))


def made_at(tsid: str) -> float:
    number = 0
    for letter in tsid:
        number = number * 32 + ALPHABET.index(letter)
    return ((number >> (_COUNTER_BITS + _MAKER_BITS)) + _EPOCH) / 1000


class IdMaker:
    """Makes increasing ids. When the counter overflows, it borrows from the next millisecond."""

    def __init__(
        self, maker: int, now: Callable[[], float], random_bits: Callable[[int], int] = lambda _: 0
    ) -> None:
        self._maker = (maker % MAKERS) << _COUNTER_BITS
        self._now = now
        self._random_bits = random_bits
        self._millis = 0
        self._counter = 0

    def __call__(self) -> str:
        millis = int(self._now() * 1000) - _EPOCH
        if millis > self._millis:
            # Start in the lower half, so that at least 2048 ids fit into this millisecond.
            self._millis, self._counter = millis, self._random_bits(_COUNTER_BITS - 1)
        else:
            self._counter += 1
            if self._counter >> _COUNTER_BITS:
                self._millis, self._counter = self._millis + 1, 0
        return _text(self._millis << (_COUNTER_BITS + _MAKER_BITS) | self._maker | self._counter)


def _text(number: int) -> str:
    return ALPHABET[number >> 60] + "".join(
        [_PAIRS[number >> shift & 1023] for shift in (50, 40, 30, 20, 10, 0)]
    )
