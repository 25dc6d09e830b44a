"""Schemas compiled and payloads checked: here where that is quick for certain, else apart."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

import structlog

from core.events.event_type import SchemaType
from core.shared.errors import OverloadedError, UnavailableError
from handlers.schemas.dialects import family
from handlers.schemas.interface import (
    MOST_SCHEMA,
    Check,
    Compiled,
    Mismatch,
    Outcome,
    mismatch,
    unusable,
)
from handlers.schemas.sandbox import Examiner, ExaminerDiedError, TooLongError
from handlers.schemas.sandbox_protocol import Compile, Examine, Load

T = TypeVar("T")

log = structlog.get_logger("schemas")

# Weight times bytes of a payload that may be checked in the event loop: ten milliseconds at worst.
QUICK = 20_000_000
READY_LIMIT = 128
COMPILE_SECONDS = 3.0
CHECK_SECONDS = 1.0
PATIENCE = 30.0
# How many may wait to be looked at, in all and of one tenant: no tenant takes all the places.
WAITING_LIMIT = 2_000
TENANT_LIMIT = 500


class Checks:
    """Compiles and checks for one process. Close it at the end."""

    def __init__(self, examiners: int = 2, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._ready: dict[bytes, Check] = {}
        self._checking = ThreadPoolExecutor(examiners, "schema-check")
        self._compiling = ThreadPoolExecutor(examiners, "schema-compile")
        self._own = threading.local()
        self._examiners: set[Examiner] = set()
        self._turns: WeakValueDictionary[tuple[int, ThreadPoolExecutor], asyncio.Lock] = (
            WeakValueDictionary()
        )
        self._waiting: Counter[int] = Counter()
        self._closed = False

    async def compile(self, tenant: int, kind: SchemaType, text: str) -> Outcome:
        """The schema in the form that is kept, or why it cannot be used."""
        if len(text.encode()) > MOST_SCHEMA:
            return unusable(f"larger than {MOST_SCHEMA} bytes")
        return await self._apart(tenant, self._compiling, lambda: self._compile(kind, text))

    async def check(
        self, tenant: int, compiled: Compiled, payload: bytes, content_type: str
    ) -> list[Mismatch]:
        """What is wrong with a payload; nothing if it fits."""
        weight = compiled.weight
        if weight is not None and weight * len(payload) <= QUICK:
            return self._loaded(compiled)(payload, content_type)
        return await self._apart(
            tenant, self._checking, lambda: self._examine(compiled, payload, content_type)
        )

    def close(self) -> None:
        """End the processes; what waits for them is not answered any more."""
        self._closed = True
        for pool in (self._checking, self._compiling):
            pool.shutdown(wait=False, cancel_futures=True)
        for examiner in list(self._examiners):
            self._drop(examiner)

    def _loaded(self, compiled: Compiled) -> Check:
        check = self._ready.pop(compiled.key, None)
        if check is None:
            check = family(compiled.kind).load(compiled.form)
        self._ready[compiled.key] = check  # behind the others: the last to be dropped
        while len(self._ready) > READY_LIMIT:
            del self._ready[next(iter(self._ready))]
        return check

    async def _apart(self, tenant: int, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        """Work in another process, by a thread that waits for it.

        A tenant has one at a time: what is slow of it holds up itself alone.
        """
        if self._closed:
            raise UnavailableError("this replica is going away")
        if self._waiting[tenant] >= TENANT_LIMIT or self._waiting.total() >= WAITING_LIMIT:
            raise OverloadedError("too many schemas and payloads wait to be looked at")
        turn = self._turns.setdefault((tenant, pool), asyncio.Lock())
        self._waiting[tenant] += 1
        try:
            async with asyncio.timeout(self._patience), turn:
                return await asyncio.get_running_loop().run_in_executor(pool, work)
        except OSError as error:
            log.warning("schema.not_looked_at", tenant=tenant, error=repr(error))
            raise UnavailableError("schemas cannot be looked at in time", retry_after=5) from None
        finally:
            self._waiting[tenant] -= 1
            if not self._waiting[tenant]:
                del self._waiting[tenant]

    # From here on in a thread

    def _examine(self, compiled: Compiled, payload: bytes, content_type: str) -> list[Mismatch]:
        task = Examine(compiled.key, payload, content_type)
        for last in (False, True):
            examiner = self._examiner()
            try:
                answer = examiner.ask(task, CHECK_SECONDS, self._patience)
                if answer.unknown:
                    examiner.ask(Load(compiled), COMPILE_SECONDS, self._patience)
                    answer = examiner.ask(task, CHECK_SECONDS, self._patience)
            except TooLongError:
                self._drop(examiner)
                return [mismatch("", f"a payload that is checked within {CHECK_SECONDS:g} s")]
            except ExaminerDiedError as error:
                # What it had collected before may have been too much: try once in a new one.
                self._drop(examiner)
                log.warning(
                    "schema.check_broke", key=compiled.key.hex(), last=last, error=str(error)
                )
            except BaseException:
                self._drop(examiner)
                raise
            else:
                return answer.mismatches
        return [mismatch("", "a payload that can be checked with the memory there is")]

    def _compile(self, kind: SchemaType, text: str) -> Outcome:
        """Each text in a process of its own, which ends with it."""
        with Examiner() as examiner:
            try:
                answer = examiner.ask(Compile(kind, text), COMPILE_SECONDS, self._patience)
            except TooLongError:
                return unusable(f"it takes longer than {COMPILE_SECONDS:g} s to compile")
            except ExaminerDiedError:
                return unusable("it breaks the compiler: too deep, or too much for the memory")
        return answer.outcome or unusable(answer.unusable or "it cannot be compiled")

    def _examiner(self) -> Examiner:
        """This thread's own."""
        examiner: Examiner | None = getattr(self._own, "examiner", None)
        if examiner is None or examiner not in self._examiners:
            if self._closed:
                raise UnavailableError("this replica is going away")
            examiner = self._own.examiner = Examiner()
            self._examiners.add(examiner)
        return examiner

    def _drop(self, examiner: Examiner) -> None:
        self._examiners.discard(examiner)
        examiner.close()
