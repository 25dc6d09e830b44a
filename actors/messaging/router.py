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

from actors.messaging.batcher import PARCEL_BYTES, Call, Sender
from actors.messaging.send_queue import Parcel, weight_of
from actors.messaging.shard_socket import LineFailedError, LineLostError
from actors.runtime.names import home_of
from core.shared.backoff import backoff
from core.shared.config import Config
from core.shared.errors import OverloadedError, UnavailableError
from core.waits.messages import Message, RefusalKind, Refused, Reply

log = structlog.get_logger("router")

# Calls one batch on the actor of this name; raises RayActorError or LineLostError while the
# actor is gone.
Deliver: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]
KEEP_SENDERS = 256


class Router:
    """Groups messages by the actor their correlation lives in."""

    def __init__(self, config: Config, deliver: Deliver) -> None:
        self._config = config
        self._deliver = deliver
        self._senders: dict[str, Sender] = {}

    async def send(self, message: Message) -> Reply:
        """Send one message; its answer, which means that it is committed.

        Raises:
            OverloadedError: Nothing was taken; try again later.
            UnavailableError: No answer in time; it may or may not have been taken.
        """
        parcel = Parcel([message])
        self._sender(home_of(message.address.key, self._config)).put(parcel)
        # asyncio.timeout would cost as much as all of this together.
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._config.request_timeout, lambda: parcel.fail(_late()))
        try:
            reply = (await parcel.future)[0]
        finally:
            timer.cancel()
            parcel.abandon()
        if isinstance(reply, Refused):
            if reply.kind is RefusalKind.OVERLOADED:
                raise OverloadedError(reply.detail)
            if reply.kind is RefusalKind.FAILED:
                raise UnavailableError(reply.detail)
        return reply

    async def send_many(self, messages: list[Message]) -> list[Reply]:
        """Send many at once; answers in their order. One that was refused for load says so."""
        groups: dict[str, list[int]] = {}
        for index, message in enumerate(messages):
            groups.setdefault(home_of(message.address.key, self._config), []).append(index)
        replies: list[Reply] = [_FULL] * len(messages)
        parcels: list[tuple[Parcel, list[int]]] = []
        portions = (
            (target, part)
            for target, all_ in groups.items()
            for part in _cut(messages, all_, self._sender(target).most_messages)
        )
        for target, indices in portions:
            parcel = Parcel([messages[index] for index in indices])
            try:
                self._sender(target).put(parcel)
            except OverloadedError:
                continue
            parcels.append((parcel, indices))
        answers = await self._answers([parcel for parcel, _ in parcels])
        for (_, indices), answer in zip(parcels, answers, strict=True):
            for index, reply in zip(indices, answer, strict=True):
                replies[index] = reply
        return replies

    async def close(self) -> None:
        """Stop sending."""
        for sender in self._senders.values():
            await sender.close()

    async def _answers(self, parcels: list[Parcel]) -> list[list[Reply]]:
        try:
            async with asyncio.timeout(self._config.request_timeout):
                return [await parcel.future for parcel in parcels]
        except TimeoutError:
            raise _late() from None
        finally:
            for parcel in parcels:
                parcel.abandon()

    def _sender(self, target: str) -> Sender:
        sender = self._senders.get(target)
        if sender is None:
            if len(self._senders) >= KEEP_SENDERS:
                self._senders = {n: s for n, s in self._senders.items() if not s.idle}
            sender = Sender(self._call_to(target), self._config.pending_limit)
            self._senders[target] = sender
        return sender

    def _call_to(self, target: str) -> Call:
        async def call(batch: bytes) -> bytes:
            deadline = time.monotonic() + self._config.request_timeout
            attempt = 0
            while True:
                try:
                    return await self._deliver(target, batch)
                except (RayActorError, LineLostError, ValueError, TimeoutError) as error:
                    pause = backoff(attempt, base=0.05, cap=1.0, jitter=random.random())  # noqa: S311
                    if time.monotonic() + pause > deadline:
                        raise UnavailableError(f"{target} is away", 2) from error
                    log.warning("router.actor_away", target=target, attempt=attempt)
                    attempt += 1
                    await asyncio.sleep(pause)
                except (RayError, LineFailedError) as error:
                    raise UnavailableError(f"{target} failed", 2) from error

        return call


def _cut(messages: list[Message], indices: list[int], most: int = sys.maxsize) -> list[list[int]]:
    """Indices of messages in portions that are neither too heavy nor too many."""
    portions: list[list[int]] = [[]]
    weight = 0
    for index in indices:
        weight += weight_of(messages[index])
        if (weight > PARCEL_BYTES or len(portions[-1]) == most) and portions[-1]:
            portions.append([])
            weight = weight_of(messages[index])
        portions[-1].append(index)
    return portions


def _late() -> UnavailableError:
    return UnavailableError("no answer from the shard in time", 2)


_FULL = Refused(kind=RefusalKind.OVERLOADED, detail="too many messages wait for this shard")
