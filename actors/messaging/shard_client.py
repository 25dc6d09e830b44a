"""The client of the shards: batches messages by actor, delivers them and tries again.

Trying again is safe because each message carries the id it is deduplicated by.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, overload

import ray
import structlog
from ray.exceptions import RayActorError, RayError

from actors.messaging.batcher import MAX_REQUEST_BYTES, Batcher, CallActor, SendRequest, weigh
from actors.messaging.shard_messages import ShardMessage, ShardReply, mark_resent
from actors.messaging.shard_socket import (
    BatchConnection,
    BatchFailedError,
    ConnectionLostError,
    Endpoint,
)
from actors.runtime.directory import Directory
from actors.runtime.names import host_actor_name
from core.records.messages import RecordMessage, RecordReply
from core.shared.address import shard_of
from core.shared.config import Config, Placement
from core.shared.errors import OverloadedError, UnavailableError
from core.waits.messages import RefusalKind, RefusedReply, Reply, WaitMessage
from services.shared.process import BackgroundTasks
from services.shared.retry import retrying

log = structlog.get_logger("shard_client")

MAX_BATCHERS = 256
# If a port cannot be reached, for example behind a firewall, batches are sent by Ray calls; after
# this many seconds the socket is tried again in the background.
RAY_FOR = 60.0
_MAX_CONNECTIONS = 256
_ACTOR_AWAY = (RayActorError, ConnectionLostError, ValueError, TimeoutError)

Handle = Any
FindActor = Callable[[str], Awaitable[Handle]]
# Sends one batch to the actor of a name; raises RayActorError or ConnectionLostError while the
# actor is gone.
DeliverBatch = Callable[[str, bytes], Awaitable[bytes]]


class ShardClient:
    """Sends messages to the actors that host their correlations."""

    def __init__(
        self, config: Config, deliver: DeliverBatch, close: Callable[[], None] = lambda: None
    ) -> None:
        self._config = config
        self._deliver = deliver
        self._close = close
        self._shards = 0 if config.placement is Placement.DEDICATED else config.shards
        self._batchers: dict[int | bytes, Batcher] = {}

    @classmethod
    def open(cls, config: Config, directory: Directory | None = None) -> "ShardClient":
        directory = directory or Directory(config)
        connections = ShardConnections(directory.handle, directory.forget)
        return cls(config, connections.handle_batch, connections.close)

    @overload
    async def send(self, message: WaitMessage) -> Reply: ...

    @overload
    async def send(self, message: RecordMessage) -> RecordReply | RefusedReply: ...

    async def send(self, message: ShardMessage) -> ShardReply:
        """Send one message; a reply means that it is committed.

        Raises:
            OverloadedError: The message was not taken; try again later.
            UnavailableError: No reply in time; the message may or may not have been taken.
        """
        request = SendRequest([message])
        self._batcher(message.address.key).put(request)
        (reply,) = await request.result(self._config.request_timeout, _late)
        if isinstance(reply, RefusedReply):
            if reply.kind is RefusalKind.OVERLOADED:
                raise OverloadedError(reply.detail)
            if reply.kind is RefusalKind.FAILED:
                raise UnavailableError(reply.detail)
        return reply

    @overload
    async def send_many(self, messages: list[WaitMessage]) -> list[Reply]: ...

    @overload
    async def send_many(
        self, messages: list[RecordMessage]
    ) -> list[RecordReply | RefusedReply]: ...

    async def send_many(self, messages: Sequence[ShardMessage]) -> Sequence[ShardReply]:
        """Send many messages; return the replies in the same order, including refusals.

        Raises:
            UnavailableError: No reply in time; messages may or may not have been taken.
        """
        groups: dict[int | bytes, list[int]] = {}
        for index, message in enumerate(messages):
            groups.setdefault(self._host_of(message.address.key), []).append(index)
        replies: list[ShardReply] = [_FULL] * len(messages)
        requests: list[tuple[SendRequest, list[int]]] = []
        for group in groups.values():
            batcher = self._batcher(messages[group[0]].address.key)
            for indices in _split_by_size(messages, group, batcher.max_messages):
                request = SendRequest([messages[index] for index in indices])
                try:
                    batcher.put(request)
                except OverloadedError:
                    continue
                requests.append((request, indices))
        answers = await self._answers([request for request, _ in requests])
        for (_, indices), answer in zip(requests, answers, strict=True):
            for index, reply in zip(indices, answer, strict=True):
                replies[index] = reply
        return replies

    async def close(self) -> None:
        for batcher in self._batchers.values():
            await batcher.close()
        self._close()

    async def _answers(self, requests: list[SendRequest]) -> list[list[ShardReply]]:
        try:
            async with asyncio.timeout(self._config.request_timeout):
                return [await request.future for request in requests]
        except TimeoutError:
            raise _late() from None
        finally:
            for request in requests:
                request.abandon()

    def _host_of(self, key: bytes) -> int | bytes:
        """Return a key for the actor of this correlation that is cheaper than its name."""
        return shard_of(key, self._shards) if self._shards else key

    def _batcher(self, key: bytes) -> Batcher:
        host = self._host_of(key)
        batcher = self._batchers.get(host)
        if batcher is None:
            if len(self._batchers) >= MAX_BATCHERS:
                self._batchers = {h: b for h, b in self._batchers.items() if not b.idle}
            call = self._call_to(host_actor_name(key, self._config))
            batcher = self._batchers[host] = Batcher(call, self._config.pending_limit)
        return batcher

    def _call_to(self, actor: str) -> CallActor:
        async def call(batch: bytes) -> bytes:
            deadline = time.monotonic() + self._config.request_timeout

            def give_up_in_time(error: Exception, pause: float) -> None:
                nonlocal batch
                batch = mark_resent(batch)
                if time.monotonic() + pause > deadline:
                    raise UnavailableError(f"{actor} is away", 2) from error
                log.warning("shard_client.actor_away", actor=actor, pause=pause)

            async def deliver() -> bytes:
                return await self._deliver(actor, batch)

            try:
                return await retrying(deliver, errors=_ACTOR_AWAY, failed=give_up_in_time)
            except (RayError, BatchFailedError) as error:
                raise UnavailableError(f"{actor} failed", 2) from error

        return call


class ShardConnections:
    """Delivers batches to actors by name, over a socket where one can be opened, else by Ray."""

    def __init__(self, find: FindActor, forget: Callable[[str], None]) -> None:
        self._find = find
        self._forget = forget
        self._connections: dict[str, BatchConnection] = {}
        self._opening: dict[str, asyncio.Task[BatchConnection | None]] = {}
        self._polling = BackgroundTasks()
        self._by_ray_until: dict[str, float] = {}
        self._refused: set[str] = set()
        self._closed = False

    async def handle_batch(self, name: str, batch: bytes) -> bytes:
        """Send one batch to an actor, and return its reply.

        Raises:
            RayError, ConnectionLostError: The actor is away.
            BatchFailedError: The actor could not handle the batch.
        """
        if self._closed:
            raise ConnectionLostError("shutting down")
        connection = self._connections.get(name)
        if connection is None or connection.is_lost:
            connection = await self._connection_to(name)
        if connection is None:
            return await self._call_by_ray(name, batch)
        return await connection.call(batch)

    def close(self) -> None:
        self._closed = True
        self._polling.cancel()
        for task in self._opening.values():
            task.cancel()
        for connection in self._connections.values():
            connection.close()

    async def _connection_to(self, name: str) -> BatchConnection | None:
        until = self._by_ray_until.get(name)
        if until is None:
            return await asyncio.shield(self._attempt(name))
        if time.monotonic() > until:
            self._attempt(name)
        return None

    def _attempt(self, name: str) -> "asyncio.Task[BatchConnection | None]":
        """Start one attempt to connect, shared by all callers that wait for this actor."""
        task = self._opening.get(name)
        if task is None:
            task = asyncio.create_task(self._open(name))
            self._opening[name] = task
            task.add_done_callback(lambda done: self._attempted(name, done))
        return task

    def _attempted(self, name: str, task: "asyncio.Task[BatchConnection | None]") -> None:
        self._opening.pop(name, None)
        if not task.cancelled():
            task.exception()  # mark the exception as retrieved

    async def _open(self, name: str) -> BatchConnection | None:
        handle = await self._find(name)
        endpoint = await self._ask_endpoint(name, handle)
        if endpoint is None:
            self._use_ray(name)
            return None
        try:
            connection = await BatchConnection.open(endpoint)
        except OSError as error:
            if isinstance(error, ConnectionRefusedError) and name not in self._refused:
                # The actor reported this port a moment ago, so it has just died: look it up again.
                self._refused.add(name)
                self._forget(name)
                raise ConnectionLostError(f"{name} refused") from error
            log.warning("connections.unreachable", actor=name, port=endpoint.port, error=str(error))
            self._use_ray(name)
            return None
        self._refused.discard(name)
        self._by_ray_until.pop(name, None)
        self._connections[name] = connection
        self._polling.start(self._poll(name, handle, endpoint, connection))
        return connection

    async def _ask_endpoint(self, name: str, handle: Handle) -> Endpoint | None:
        try:
            endpoint: Endpoint | None = await handle.endpoint.remote()
        except ray.exceptions.RayActorError:
            self._forget(name)
            raise
        except (ray.exceptions.RayTaskError, AttributeError) as error:
            # For example an actor of an earlier version, which has no endpoint.
            log.warning("connections.no_endpoint", actor=name, error=type(error).__name__)
            return None
        return endpoint

    def _use_ray(self, name: str) -> None:
        now = time.monotonic()
        if len(self._by_ray_until) >= _MAX_CONNECTIONS:
            known = self._by_ray_until.items()
            self._by_ray_until = {n: until for n, until in known if until > now}
        self._by_ray_until[name] = now + RAY_FOR

    async def _poll(
        self, name: str, handle: Handle, endpoint: Endpoint, connection: BatchConnection
    ) -> None:
        """Keep a long call open: Ray fails it when the actor or its node is gone."""
        try:
            while not connection.is_lost:
                await handle.long_poll.remote(endpoint.secret)
        except ray.exceptions.RayError as error:
            log.info("connections.actor_gone", actor=name, error=type(error).__name__)
        finally:
            connection.close()
            if self._connections.get(name) is connection:
                del self._connections[name]
            self._forget(name)

    async def _call_by_ray(self, name: str, batch: bytes) -> bytes:
        handle = await self._find(name)
        try:
            replies: bytes = await handle.handle_batch.remote(batch)
        except ray.exceptions.RayActorError:
            self._forget(name)
            raise
        return replies


def _split_by_size(
    messages: Sequence[ShardMessage], indices: list[int], max_messages: int = sys.maxsize
) -> list[list[int]]:
    """Split indices of messages into portions that are neither too heavy nor too many."""
    chosen = [messages[index] for index in indices]
    if len(chosen) <= max_messages and weigh(chosen) <= MAX_REQUEST_BYTES:
        return [indices]  # the usual case
    portions: list[list[int]] = [[]]
    weight = 0
    for index, message in zip(indices, chosen, strict=True):
        own = weigh((message,))
        weight += own
        if (weight > MAX_REQUEST_BYTES or len(portions[-1]) == max_messages) and portions[-1]:
            portions.append([])
            weight = own
        portions[-1].append(index)
    return portions


def _late() -> UnavailableError:
    return UnavailableError("no answer from the shard in time", 2)


_FULL = RefusedReply(
    kind=RefusalKind.OVERLOADED, detail="too many messages are queued for this shard"
)
