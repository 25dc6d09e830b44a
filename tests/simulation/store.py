"""Postgres as the simulation has it: the same promises as storage/waits/flush.py, plus bad luck."""

import asyncio
from collections.abc import Sequence
from random import Random

from core.shared.address import Address
from core.waits.completion_event import OutgoingEvent
from core.waits.spec import WaitSpec
from core.waits.state import ParkedEvent, Wait, WaitLogEntry
from core.waits.strategy import Outcome
from storage.waits.flush import NO_VERSION, WaitChange
from storage.waits.waits import LoadedWait, WaitLookup


class LostError(ConnectionError):
    """The connection broke; nobody knows whether the statement was committed."""


class Tables:
    """What is committed. Checks the laws at every write.

    A broken law is noted, not raised: whoever writes would take an exception for Postgres' refusal
    and go on.
    """

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.waits: dict[bytes, Wait] = {}
        self.nodes: dict[tuple[int, str, str], bytes] = {}
        self.log: dict[tuple[bytes, str], WaitLogEntry] = {}
        self.lines: set[tuple[bytes, int]] = set()
        self.inbox: dict[tuple[bytes, str], ParkedEvent] = {}
        self.outbox: list[tuple[bytes, OutgoingEvent]] = []
        self.refused_writes = 0

    def commit(self, changes: Sequence[WaitChange]) -> set[bytes]:
        """One flush: all rows that may change do, together with what hangs on them."""
        kept = {c.key for c in changes if c.wait is not None and self._write(c, c.wait)}
        for change in changes:
            if change.wait is not None and change.key not in kept:
                self.refused_writes += 1
                continue
            for entry in change.entries:
                self._log(change.key, entry)
            for event_id in change.taken_from_inbox:
                self.inbox.pop((change.key, event_id), None)
            for event in change.parked:
                self._park(change.key, event)
            self.outbox += [(change.key, event) for event in change.outgoing]
        return kept

    def _law(self, *, holds: bool, law: str) -> None:
        if not holds:
            self.broken.append(law)

    def _write(self, change: WaitChange, wait: Wait) -> bool:
        old = self.waits.get(change.key)
        node = (wait.address.tenant, wait.address.execution_id, wait.node_id)
        if change.stored_version == NO_VERSION:
            if old is not None or node in self.nodes:
                return False
            self.nodes[node] = change.key
        elif old is None or old.version != change.stored_version:
            return False
        if old is not None:
            self._check_step(old, wait)
        tells = wait.ending is not None and (old is None or old.ending is None)
        due = 1 if tells and wait.spec.publish else 0
        self._law(holds=len(change.outgoing) == due, law="an end and its event commit together")
        self.waits[change.key] = wait
        return True

    def _log(self, key: bytes, entry: WaitLogEntry) -> None:
        if (key, entry.event_id) in self.log:
            self._law(holds=entry.kind in {"late", "duplicate"}, law="an event counts once")
            return
        self._law(holds=(key, entry.seq) not in self.lines, law="a line's number is its own")
        self.lines.add((key, entry.seq))
        self.log[key, entry.event_id] = entry

    def _park(self, key: bytes, event: ParkedEvent) -> None:
        known = self.inbox.get((key, event.event_id))
        may_change = known is None or (
            event.reason != "too_many_early"
            and (
                known.verdict == "buffered"
                or known.reason in {"execution_mismatch", "too_many_early"}
            )
        )
        if may_change:
            self.inbox[key, event.event_id] = event

    def _check_step(self, old: Wait, new: Wait) -> None:
        self._law(holds=new.version > old.version, law="versions grow")
        self._law(holds=new.log_length >= old.log_length, law="the log grows")
        self._law(holds=new.address == old.address, law="an address stays")
        if old.ending is not None:
            self._law(holds=new.ending == old.ending, law="an ended wait never ends again")
            self._law(holds=new.marks == old.marks, law="an ended wait never changes")
        for before, after in zip(old.marks, new.marks, strict=True):
            if before.outcome is not Outcome.PENDING:
                self._law(holds=after == before, law="the first event wins")


class SimStore:
    """One shard's connection to the tables: slow at times, and at times gone."""

    def __init__(self, tables: Tables, rng: Random, trouble: "Trouble") -> None:
        self._tables = tables
        self._rng = rng
        self._trouble = trouble

    async def load(self, requests: Sequence[WaitLookup]) -> dict[bytes, LoadedWait]:
        """All that is known of these keys, as of one moment in between two delays."""
        await self._delay()
        found = {request.key: self._loaded(request) for request in requests}
        await self._delay()
        return found

    async def load_early(self, keys: Sequence[bytes]) -> dict[bytes, list[ParkedEvent]]:
        """The events that came before a registration, as of another moment."""
        await self._delay()
        found = {key: self._early(key) for key in keys}
        await self._delay()
        return found

    async def probe(self) -> None:
        """Take rows, as ever."""

    async def flush(self, changes: Sequence[WaitChange]) -> set[bytes]:
        """Commit; the answer may be lost although the commit was not."""
        await self._delay()
        if self._trouble.strikes(0.08):
            raise LostError("before")
        kept = self._tables.commit(changes)
        await self._delay()
        if self._trouble.strikes(0.08):
            raise LostError("after")
        return kept

    async def restore_spec(self, tenant: int, spec: WaitSpec, last_deadline: float) -> None:
        """No spec is ever lost here."""
        raise NotImplementedError

    async def correlation_of_node(self, address: Address, node_id: str) -> str | None:
        """Which correlation a node of this execution already has."""
        await self._delay()
        key = self._tables.nodes.get((address.tenant, address.execution_id, node_id))
        return self._tables.waits[key].address.correlation_id if key else None

    async def _delay(self) -> None:
        stall = 5.0 if self._trouble.strikes(0.02) else 0.0
        await asyncio.sleep(self._rng.random() * 0.01 + stall)
        if self._trouble.strikes(0.03):
            raise LostError("connection")

    def _loaded(self, request: WaitLookup) -> LoadedWait:
        tables, key = self._tables, request.key
        if key in tables.waits:
            return LoadedWait(tables.waits[key])
        early = {event.event_id: len(event.payload) for event in self._early(key)}
        refused = sum(
            owner == key and event.reason == "too_many_early"
            for (owner, _), event in tables.inbox.items()
        )
        others = sorted(k for k in tables.waits if request.has_event and k[:8] == key[:8])
        waiting = [tables.waits[k] for k in others if tables.waits[k].ending is None]
        other = waiting[0].address.execution_id if waiting else None
        return LoadedWait(None, early, refused, other)

    def _early(self, key: bytes) -> list[ParkedEvent]:
        return [
            event
            for (owner, _), event in self._tables.inbox.items()
            if owner == key
            and (event.verdict == "buffered" or event.reason == "execution_mismatch")
        ]


class Trouble:
    """Whether bad luck strikes now. Ends when the scenario wants quiet."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.over = False

    def strikes(self, chance: float) -> bool:
        """Roll the dice."""
        return not self.over and self._rng.random() < chance
