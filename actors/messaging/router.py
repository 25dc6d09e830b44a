"""The batching client every caller uses: finds the actor, finds it again, and asks again.

Asking again is safe because each message carries the id it is deduplicated by.
"""

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import structlog
from ray.exceptions import RayActorError, RayError

from actors.messaging.batcher import MAX_REQUEST_BYTES, Batcher, CallActor
from actors.messaging.send_queue import SendRequest, weight_of
from actors.messaging.shard_socket import BatchFailedError, ConnectionLostError
from actors.runtime.names import host_actor_name
from core.shared.backoff import backoff
from core.shared.config import Config
from core.shared.errors import OverloadedError, UnavailableError
from core.waits.messages import RefusalKind, RefusedReply, Reply, WaitMessage

log = structlog.get_logger("router")

# Calls one batch on the actor of this name; raises RayActorError or LineLostError while the
# actor is gone.
DeliverBatch: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]
MAX_BATCHERS = 256


class Router:
    """Groups messages by the actor their correlation lives in."""

    def __init__(self, config: Config, deliver: DeliverBatch) -> None:
        self._config = config
        self._deliver = deliver
        self._batchers: dict[str, Batcher] = {}

    async def send(self, message: WaitMessage) -> Reply:
        """Send one message; its answer, which means that it is committed.

        Raises:
            OverloadedError: Nothing was taken; try again later.
            UnavailableError: No answer in time; it may or may not have been taken.
        """
        request = SendRequest([message])
        self._batcher(host_actor_name(message.address.key, self._config)).put(request)
        # asyncio.timeout would cost as much as all of this together.
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._config.request_timeout, lambda: request.fail(_late()))
        try:
            reply = (await request.future)[0]
        finally:
            timer.cancel()
            request.abandon()
        if isinstance(reply, RefusedReply):
            if reply.kind is RefusalKind.OVERLOADED:
                raise OverloadedError(reply.detail)
            if reply.kind is RefusalKind.FAILED:
                raise UnavailableError(reply.detail)
        return reply

    async def send_many(self, messages: list[WaitMessage]) -> list[Reply]:
        """Send many at once; answers in their order. One that was refused for load says so."""
        groups: dict[str, list[int]] = {}
        for index, message in enumerate(messages):
            groups.setdefault(host_actor_name(message.address.key, self._config), []).append(index)
        replies: list[Reply] = [_FULL] * len(messages)
        requests: list[tuple[SendRequest, list[int]]] = []
        portions = (
            (target, part)
            for target, all_ in groups.items()
            for part in _split_by_size(messages, all_, self._batcher(target).max_messages)
        )
        for target, indices in portions:
            request = SendRequest([messages[index] for index in indices])
            try:
                self._batcher(target).put(request)
            except OverloadedError:
                continue
            requests.append((request, indices))
        answers = await self._answers([request for request, _ in requests])
        for (_, indices), answer in zip(requests, answers, strict=True):
            for index, reply in zip(indices, answer, strict=True):
                replies[index] = reply
        return replies

    async def close(self) -> None:
        """Stop sending."""
        for sender in self._batchers.values():
            await sender.close()

    async def _answers(self, requests: list[SendRequest]) -> list[list[Reply]]:
        try:
            async with asyncio.timeout(self._config.request_timeout):
                return [await request.future for request in requests]
        except TimeoutError:
            raise _late() from None
        finally:
            for request in requests:
                request.abandon()

    def _batcher(self, target: str) -> Batcher:
        sender = self._batchers.get(target)
        if sender is None:
            if len(self._batchers) >= MAX_BATCHERS:
                self._batchers = {n: s for n, s in self._batchers.items() if not s.idle}
            sender = Batcher(self._call_to(target), self._config.pending_limit)
            self._batchers[target] = sender
        return sender

    def _call_to(self, target: str) -> CallActor:
        async def call(batch: bytes) -> bytes:
            deadline = time.monotonic() + self._config.request_timeout
            attempt = 0
            while True:
                try:
                    return await self._deliver(target, batch)
                except (RayActorError, ConnectionLostError, ValueError, TimeoutError) as error:
                    pause = backoff(attempt, base=0.05, cap=1.0, jitter=random.random())  # noqa: S311
                    if time.monotonic() + pause > deadline:
                        raise UnavailableError(f"{target} is away", 2) from error
                    log.warning("router.actor_away", target=target, attempt=attempt)
                    attempt += 1
                    await asyncio.sleep(pause)
                except (RayError, BatchFailedError) as error:
                    raise UnavailableError(f"{target} failed", 2) from error

        return call


def _split_by_size(
    messages: list[WaitMessage], indices: list[int], most: int = sys.maxsize
) -> list[list[int]]:
    """Indices of messages in portions that are neither too heavy nor too many."""
    portions: list[list[int]] = [[]]
    weight = 0
    for index in indices:
        weight += weight_of(messages[index])
        if (weight > MAX_REQUEST_BYTES or len(portions[-1]) == most) and portions[-1]:
            portions.append([])
            weight = weight_of(messages[index])
        portions[-1].append(index)
    return portions


def _late() -> UnavailableError:
    return UnavailableError("no answer from the shard in time", 2)


_FULL = RefusedReply(kind=RefusalKind.OVERLOADED, detail="too many messages wait for this shard")
