"""Activates correlations that are not in memory from their rows, many in one query.

Early events are read separately and in limited chunks, so that large ones do not delay other
correlations.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias, TypeVar

import structlog

from actors.waits.activation import Activation, ActivationCache
from actors.waits.shard_flush import ShardWriter
from actors.waits.turn import Turn, TurnTime
from core.waits.messages import Offer, RefusalKind, RefusedReply, Register
from core.waits.spec import WaitSpec, decode_spec
from services.shared.split_write import SplitWrite
from storage.waits.shard_store import ShardStore
from storage.waits.waits import LoadedWait, WaitLookup
from telemetry.logging import about

log = structlog.get_logger("shard")

# Early events are read in chunks of this many bytes, or of one correlation.
EARLY_CHUNK = 4 * 1024 * 1024

_NOT_LOADED = RefusedReply(kind=RefusalKind.OVERLOADED, detail="could not be loaded; try again")
_UNREADABLE = RefusedReply(kind=RefusalKind.FAILED, detail="what is stored here cannot be read now")
T = TypeVar("T")
_Taken: TypeAlias = dict[tuple[bytes, str], RefusedReply]


class ShardLoader:
    """Holds the turns of correlations that are being read, in the order they arrived."""

    def __init__(
        self,
        store: ShardStore,
        activations: ActivationCache,
        writer: ShardWriter,
        moment: Callable[[], TurnTime],
        run: Callable[[Activation, Turn, float], None],
    ) -> None:
        self._store = store
        self._activations = activations
        self._writer = writer
        self._moment = moment
        self._run_turn = run
        self._to_load: list[bytes] = []
        self._to_open: dict[bytes, Activation] = {}
        self._work = asyncio.Event()
        # Turns by key; further turns of these correlations are added here.
        self.waiting: dict[bytes, list[Turn]] = {}

    def load(self, key: bytes, turns: Iterable[Turn]) -> None:
        """Read a correlation, then run these turns."""
        if key in self.waiting:
            self.waiting[key].extend(turns)
            return
        self.waiting[key] = list(turns)
        self._to_load.append(key)
        self._work.set()

    def open(self, active: Activation, turn: Turn) -> None:
        """Read the early events of a correlation that is about to be registered."""
        self.waiting[active.key] = [turn]
        self._to_open[active.key] = active
        self._work.set()

    async def load_forever(self) -> None:
        """Read requested correlations and chunks of requested early events, alternately."""
        while True:
            await self._work.wait()
            self._work.clear()
            while self._to_load or self._to_open:
                keys, self._to_load = self._to_load, []
                if keys:
                    await self._or_refuse(keys, self._load_once)
                chunk = self._next_chunk()
                if chunk:
                    await self._or_refuse(chunk, self._open_once)

    def _next_chunk(self) -> list[bytes]:
        chunk: list[bytes] = []
        size = 0
        for key, active in self._to_open.items():
            size += sum(active.sizes.values())
            if chunk and size > EARLY_CHUNK:
                break
            chunk.append(key)
        return chunk

    async def _or_refuse(
        self, keys: list[bytes], read: Callable[[list[bytes]], Awaitable[None]]
    ) -> None:
        try:
            await read(keys)
        except Exception:
            log.exception("shard.load_failed", correlations=len(keys))
            for key in keys:
                self._refuse(key, _NOT_LOADED)

    def _refuse(self, key: bytes, reply: RefusedReply) -> None:
        self._to_open.pop(key, None)
        for turn in self.waiting.pop(key, ()):
            turn.answer(reply)

    async def _load_once(self, keys: list[bytes]) -> None:
        loaded = await self._read(keys, self._load)
        self._writer.counters.add("loads", len(loaded))
        taken = await self._nodes_taken(loaded)
        moment = self._moment()
        for key, found in loaded.items():
            self._run(Activation.of(key, found, moment.monotonic), taken, moment.now)

    async def _load(self, keys: list[bytes]) -> dict[bytes, LoadedWait]:
        requests = [_load_request(key, self.waiting[key]) for key in keys]
        loaded = await self._store.load(requests)
        restored = [request for request in requests if await self._restore(loaded[request.key])]
        return loaded | await self._store.load(restored) if restored else loaded

    async def _open_once(self, keys: list[bytes]) -> None:
        early = await self._read(keys, self._store.load_early)
        moment = self._moment()
        for key in keys:
            active = self._to_open.pop(key, None)
            if active is None:
                continue  # refused
            active.add_early(early.get(key, ()))
            self._run(active, {}, moment.now)

    async def _read(
        self, keys: list[bytes], read: Callable[[list[bytes]], Awaitable[dict[bytes, T]]]
    ) -> dict[bytes, T]:
        """Read by keys, and wait while Postgres is away; refuse the turns of unreadable rows."""
        found: dict[bytes, T] = {}

        async def keep(_: list[bytes], more: dict[bytes, T]) -> None:
            found.update(more)

        async def refuse(key: bytes, error: Exception) -> None:
            log.error("shard.row_unreadable", wait=key.hex(), exc_info=error)
            self._refuse(key, _UNREADABLE)

        await SplitWrite(
            write=read,
            settle=keep,
            refuse=refuse,
            probe=self._read_nothing,
            pause=self._writer.pause,
        ).run(keys)
        return found

    async def _read_nothing(self) -> None:
        await self._store.load([])

    def _run(self, active: Activation, taken: _Taken, now: float) -> None:
        key = active.key
        turns = self.waiting.pop(key)
        for index, turn in enumerate(turns):
            refusal = taken.get((key, turn.message.turn_id)) or _refuse_impostor(active, turn)
            if refusal is not None:
                turn.answer(refusal)
            elif isinstance(turn.message, Register) and active.lacks_early:
                self.waiting[key] = turns[index:]
                self._to_open[key] = active
                return
            else:
                # Add it in every round: an activation at rest is dropped after a turn that changed
                # nothing, and later turns would not see what the next turn decides.
                self._activations.add(active)
                self._run_turn(active, turn, now)

    async def _restore(self, found: LoadedWait) -> bool:
        """Restore a lost spec from a registration, if one contains it; return whether one did."""
        wait = found.wait
        if wait is None or not wait.spec.lost:
            return False
        spec = _spec_in(self.waiting[wait.address.key], wait.spec.lost)
        if spec is None:
            return False
        log.warning("wait.spec_restored", **about(wait.address))
        tenant, expires_at = wait.address.tenant, wait.opened_at + spec.timeout
        await self._store.restore_spec(tenant, spec, expires_at)
        return True

    async def _nodes_taken(self, loaded: dict[bytes, LoadedWait]) -> _Taken:
        """Find registrations that failed because another correlation has their node."""
        taken: _Taken = {}
        unregistered = [key for key, found in loaded.items() if found.wait is None]
        lost = [turn for key in unregistered for turn in self.waiting[key] if turn.lost]
        for turn in lost:
            message = turn.message
            if not isinstance(message, Register):
                continue
            existing = await self._store.correlation_of_node(message.address, message.node_id)
            if existing is not None:
                node = f"node {message.node_id} of {message.address.execution_id}"
                detail = f"{node} already has a wait"
                taken[turn.key, message.turn_id] = RefusedReply(
                    kind=RefusalKind.CONFLICT, detail=detail, existing=existing
                )
        return taken


def _load_request(key: bytes, turns: list[Turn]) -> WaitLookup:
    has_event = any(isinstance(turn.message, Offer) for turn in turns)
    return WaitLookup(key, turns[0].message.address.tenant, has_event)


def _refuse_impostor(active: Activation, turn: Turn) -> RefusedReply | None:
    """Refuse an address whose key belongs to another: only a forged hash can collide."""
    if active.wait is None or active.wait.address == turn.message.address:
        return None
    return RefusedReply(kind=RefusalKind.CONFLICT, detail="these ids collide with others")


def _spec_in(turns: list[Turn], digest: bytes) -> WaitSpec | None:
    specs = [decode_spec(t.message.spec) for t in turns if isinstance(t.message, Register)]
    return next((spec for spec in specs if spec.digest == digest), None)
