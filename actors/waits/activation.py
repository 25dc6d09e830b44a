"""Correlations in memory: their state after the last turn, stored or not."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

import msgspec

from core.waits.inbox import UNREGISTERED, UnregisteredAddress
from core.waits.limits import WaitLimits
from core.waits.messages import Reason, WaitMessage
from core.waits.passivation import should_passivate
from core.waits.state import Decision, ParkedEvent, Wait
from core.waits.transitions import apply
from storage.waits.waits import LoadedWait

# The approximate memory of a wait without its spec, and of each mark.
WAIT_BYTES, MARK_BYTES = 1_000, 400


class Activation(msgspec.Struct, gc=False):
    """The cached row of a wait, or the early events of an address without a wait."""

    key: bytes
    wait: Wait | None
    sizes: dict[str, int]
    """The bytes of each early event."""
    refused: int
    elsewhere: str | None
    last_used: float
    early: dict[str, ParkedEvent] = {}
    """The early events in memory; further ones are only in Postgres."""
    weight: int = 0
    """The bytes that the cache has counted for it, without its spec."""

    @classmethod
    def of(cls, key: bytes, loaded: LoadedWait, now: float) -> "Activation":
        return cls(key, loaded.wait, loaded.sizes, loaded.refused, loaded.elsewhere, now)

    @classmethod
    def fresh(cls, key: bytes, now: float) -> "Activation":
        """Create an activation of a correlation that cannot exist yet."""
        return cls(key, None, {}, 0, None, now)

    @property
    def lacks_early(self) -> bool:
        """Return whether a registration would need early events that have not been read."""
        return self.wait is None and len(self.sizes) > len(self.early)

    @property
    def lacks_spec(self) -> bool:
        """Return whether Postgres has lost the spec, which a registration may restore."""
        return self.wait is not None and self.wait.spec.lost != b""

    def add_early(self, events: Iterable[ParkedEvent]) -> None:
        self.early = {event.event_id: event for event in events} | self.early
        self.sizes = {name: len(event.payload) for name, event in self.early.items()}

    def apply(self, message: WaitMessage, now: float, limits: WaitLimits) -> Decision:
        wait = self.wait
        if wait is not None and not wait.spec.lost:
            decision = apply(wait, message, now, UNREGISTERED, limits)
            self.wait = decision.wait
            return decision
        decision = apply(wait, message, now, self._unregistered(), limits)
        self.wait = decision.wait
        if decision.wait is None or decision.wait.spec.lost:
            for event in decision.parked:
                self._park(event)
        elif self.sizes:
            self.early, self.sizes = {}, {}
        return decision

    def _unregistered(self) -> UnregisteredAddress:
        if not (self.sizes or self.refused or self.elsewhere):
            return UNREGISTERED
        return UnregisteredAddress(
            early=tuple(self.early.values()),
            sizes=self.sizes,
            refused=self.refused,
            elsewhere=self.elsewhere,
        )

    def _park(self, event: ParkedEvent) -> None:
        if event.reason is Reason.TOO_MANY_EARLY:
            self.refused += 1
        else:
            self.early[event.event_id] = event
            self.sizes[event.event_id] = len(event.payload)

    @property
    def at_rest(self) -> bool:
        """Return whether no change is expected soon: it is not registered, or has ended."""
        wait = self.wait
        return wait is None or wait.ending is not None or wait.spec.lost != b""


class ActivationCache:
    """Activations in the order of their last use, limited in number and bytes."""

    def __init__(self, limit: int, idle_after: float, max_bytes: int) -> None:
        self._by_key: OrderedDict[bytes, Activation] = OrderedDict()
        self._limit = limit
        self._idle_after = idle_after
        self._max_bytes = max_bytes
        # Many waits share one spec, which is counted once.
        self._spec_users: dict[int, int] = {}
        # The approximate bytes of all activations.
        self.weight = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: bytes, now: float) -> Activation | None:
        found = self._by_key.get(key)
        if found is not None:
            found.last_used = now
            self._by_key.move_to_end(key)
        return found

    def add(self, activation: Activation) -> None:
        known = self._by_key.get(activation.key)
        if known is not activation:
            if known is not None:
                self._release(known)
            self._by_key[activation.key] = activation
            self.update_weight(activation)

    def update_weight(self, activation: Activation) -> None:
        wait = activation.wait
        if wait is None or activation.weight:
            return
        activation.weight = WAIT_BYTES + MARK_BYTES * len(wait.marks)
        self.weight += activation.weight
        users = self._spec_users.get(id(wait.spec), 0)
        self._spec_users[id(wait.spec)] = users + 1
        if not users:
            self.weight += wait.spec.weight

    def _release(self, activation: Activation) -> None:
        wait = activation.wait
        if wait is None or not activation.weight:
            return
        self.weight -= activation.weight
        activation.weight = 0
        users = self._spec_users.pop(id(wait.spec)) - 1
        if users:
            self._spec_users[id(wait.spec)] = users
        else:
            self.weight -= wait.spec.weight

    def drop(self, key: bytes) -> None:
        """Forget an activation regardless of its state: the row in Postgres decides."""
        found = self._by_key.pop(key, None)
        if found is not None:
            self._release(found)

    def forget(self, unsaved: frozenset[bytes]) -> int:
        """Forget all activations without unsaved changes; return how many."""
        kept = OrderedDict((key, one) for key, one in self._by_key.items() if key in unsaved)
        gone, self._by_key = len(self._by_key) - len(kept), kept
        return gone

    def drop_if_at_rest(self, key: bytes) -> bool:
        """Forget a stored correlation at once if it is not registered or has ended."""
        found = self._by_key.get(key)
        if found is None or not found.at_rest:
            return False
        del self._by_key[key]
        self._release(found)
        return True

    def passivate(self, unsaved: frozenset[bytes], now: float) -> int:
        """Forget idle correlations, and the least used ones above the limits; return how many."""
        gone = list(self._leaving(unsaved, now))
        for key in gone:
            self.drop(key)
        if len(gone) > len(self._by_key):
            # A dict never shrinks; a copy has only the size it needs.
            self._by_key = OrderedDict(self._by_key)
        return len(gone)

    def _leaving(self, unsaved: frozenset[bytes], now: float) -> Iterator[bytes]:
        excess = len(self._by_key) - self._limit
        excess_bytes = self.weight - self._max_bytes
        for key, activation in self._by_key.items():
            idle = now - activation.last_used
            crowded = excess > 0 or excess_bytes > 0
            if idle < self._idle_after and not crowded:
                return
            leaves = should_passivate(
                unsaved=key in unsaved,
                ended=activation.at_rest,
                idle=idle,
                idle_after=self._idle_after,
                crowded=crowded,
            )
            if leaves:
                excess -= 1
                excess_bytes -= self._freed_by(activation)
                yield key

    def _freed_by(self, activation: Activation) -> int:
        """Return how many bytes are freed at least when this activation is dropped."""
        wait = activation.wait
        is_last = wait is not None and self._spec_users.get(id(wait.spec)) == 1
        return activation.weight + (wait.spec.weight if wait is not None and is_last else 0)
