"""One correlation in memory: its state as of the last turn, whether or not it is stored yet."""

from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from core.messages import Message
from core.passivation import Stay, judge_stay
from core.turns import take
from core.wait import Decision, Parked, Wait
from storage.waits import Loaded


class Activation(msgspec.Struct, gc=False):
    """The cache of a row. `early` is what was parked here while there is no wait."""

    key: bytes
    wait: Wait | None
    early: dict[str, Parked]
    elsewhere: str | None
    last_used: float

    @classmethod
    def of(cls, key: bytes, loaded: Loaded, now: float) -> "Activation":
        """Activate from what Postgres knows."""
        early = {event.event_id: event for event in loaded.early}
        return cls(key, loaded.wait, early, loaded.elsewhere, now)

    def take(self, message: Message, now: float) -> Decision:
        """One turn: decide, and be what was decided."""
        early = tuple(self.early.values()) if self.early else ()
        decision = take(self.wait, message, now, early, self.elsewhere)
        self.wait = decision.wait
        if decision.wait is not None:
            if early:
                self.early.clear()
        else:
            for event in decision.parked:
                self.early[event.event_id] = event
        return decision

    @property
    def at_rest(self) -> bool:
        """Nothing is expected to happen to it soon: nobody registered it, or it has ended."""
        return self.wait is None or self.wait.ending is not None


class Residents:
    """The correlations in memory, the longest unused first, never many more than the limit."""

    def __init__(self, limit: int, idle_after: float) -> None:
        self._by_key: OrderedDict[bytes, Activation] = OrderedDict()
        self._limit = limit
        self._idle_after = idle_after

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: bytes, now: float) -> Activation | None:
        """The activation, which counts as used now."""
        found = self._by_key.get(key)
        if found is not None:
            found.last_used = now
            self._by_key.move_to_end(key)
        return found

    def add(self, activation: Activation) -> None:
        """Take one in."""
        self._by_key[activation.key] = activation

    def drop(self, key: bytes) -> None:
        """Forget one, whatever its state: the row is the truth."""
        self._by_key.pop(key, None)

    def leave_if_at_rest(self, key: bytes) -> bool:
        """Let a stored correlation go at once if it has ended."""
        found = self._by_key.get(key)
        if found is None or not found.at_rest:
            return False
        del self._by_key[key]
        return True

    def passivate(self, unsaved: frozenset[bytes], now: float) -> int:
        """Let idle and crowded-out correlations go; how many went."""
        gone = list(self._leaving(unsaved, now))
        for key in gone:
            del self._by_key[key]
        if len(gone) > len(self._by_key):
            # A dict keeps the size of its fullest hour; a copy has the size it needs.
            self._by_key = OrderedDict(self._by_key)
        return len(gone)

    def _leaving(self, unsaved: frozenset[bytes], now: float) -> Iterator[bytes]:
        excess = len(self._by_key) - self._limit
        for key, activation in self._by_key.items():
            idle = now - activation.last_used
            if idle < self._idle_after and excess <= 0:
                return
            stay = judge_stay(
                unsaved=key in unsaved,
                ended=activation.at_rest,
                idle=idle,
                idle_after=self._idle_after,
                crowded=excess > 0,
            )
            if stay is Stay.LEAVE:
                excess -= 1
                yield key
