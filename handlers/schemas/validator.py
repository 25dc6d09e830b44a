"""Compiles schemas and checks payloads: here where that is surely quick, else in a sandbox."""

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
from handlers.schemas.dialects import dialect_of
from handlers.schemas.interface import (
    MAX_SCHEMA_BYTES,
    CompiledSchema,
    CompileResult,
    Mismatch,
    PayloadCheck,
    invalid_schema,
    mismatch,
)
from handlers.schemas.sandbox import CpuTimeExceededError, SandboxDiedError, SchemaSandbox
from handlers.schemas.sandbox_protocol import CheckTask, CompileTask, LoadTask

T = TypeVar("T")

log = structlog.get_logger("schemas")

# Weight times bytes that may be checked in the event loop: ten milliseconds at worst.
MAX_INLINE_COST = 20_000_000
READY_LIMIT = 128
COMPILE_SECONDS = 3.0
CHECK_SECONDS = 1.0
QUEUE_TIMEOUT = 30.0
# How many checks may be queued, in all and per tenant.
WAITING_LIMIT = 2_000
TENANT_LIMIT = 500


class SchemaValidator:
    """Compiles and checks for one process. Close it at the end."""

    def __init__(self, examiners: int = 2, patience: float = QUEUE_TIMEOUT) -> None:
        self._patience = patience
        self._ready: dict[bytes, PayloadCheck] = {}
        self._checking = ThreadPoolExecutor(examiners, "schema-check")
        self._compiling = ThreadPoolExecutor(examiners, "schema-compile")
        self._own = threading.local()
        self._examiners: set[SchemaSandbox] = set()
        self._turns: WeakValueDictionary[tuple[int, ThreadPoolExecutor], asyncio.Lock] = (
            WeakValueDictionary()
        )
        self._waiting: Counter[int] = Counter()
        self._closed = False

    async def compile(self, tenant: int, kind: SchemaType, text: str) -> CompileResult:
        """Compile a schema, or say why it cannot be used."""
        if len(text.encode()) > MAX_SCHEMA_BYTES:
            return invalid_schema(f"larger than {MAX_SCHEMA_BYTES} bytes")
        return await self._apart(tenant, self._compiling, lambda: self._compile(kind, text))

    async def check(
        self, tenant: int, compiled: CompiledSchema, payload: bytes, content_type: str
    ) -> list[Mismatch]:
        """Return what is wrong with a payload; an empty list if it is valid."""
        weight = compiled.weight
        if weight is not None and weight * len(payload) <= MAX_INLINE_COST:
            return self._loaded(compiled)(payload, content_type)
        return await self._apart(
            tenant, self._checking, lambda: self._examine(compiled, payload, content_type)
        )

    def close(self) -> None:
        """End the sandboxes; calls that wait for them get no answer."""
        self._closed = True
        for pool in (self._checking, self._compiling):
            pool.shutdown(wait=False, cancel_futures=True)
        for examiner in list(self._examiners):
            self._drop(examiner)

    def _loaded(self, compiled: CompiledSchema) -> PayloadCheck:
        check = self._ready.pop(compiled.key, None)
        if check is None:
            check = dialect_of(compiled.kind).load(compiled.form)
        self._ready[compiled.key] = check  # last in order: the last to be evicted
        while len(self._ready) > READY_LIMIT:
            del self._ready[next(iter(self._ready))]
        return check

    async def _apart(self, tenant: int, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        """Run a task in a sandbox, by a thread that waits for it.

        A tenant has one task at a time, so that its slow tasks delay only itself.
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

    # The methods below run in a thread

    def _examine(
        self, compiled: CompiledSchema, payload: bytes, content_type: str
    ) -> list[Mismatch]:
        task = CheckTask(compiled.key, payload, content_type)
        for last in (False, True):
            examiner = self._examiner()
            try:
                answer = examiner.run(task, CHECK_SECONDS, self._patience)
                if answer.unknown:
                    examiner.run(LoadTask(compiled), COMPILE_SECONDS, self._patience)
                    answer = examiner.run(task, CHECK_SECONDS, self._patience)
            except CpuTimeExceededError:
                self._drop(examiner)
                return [mismatch("", f"a payload that is checked within {CHECK_SECONDS:g} s")]
            except SandboxDiedError as error:
                # Earlier schemas may have filled its memory: try once in a new process.
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

    def _compile(self, kind: SchemaType, text: str) -> CompileResult:
        """Compile in a sandbox of its own, which ends with the task."""
        with SchemaSandbox() as examiner:
            try:
                answer = examiner.run(CompileTask(kind, text), COMPILE_SECONDS, self._patience)
            except CpuTimeExceededError:
                return invalid_schema(f"it takes longer than {COMPILE_SECONDS:g} s to compile")
            except SandboxDiedError:
                return invalid_schema(
                    "it breaks the compiler: too deep, or too much for the memory"
                )
        return answer.outcome or invalid_schema(answer.unusable or "it cannot be compiled")

    def _examiner(self) -> SchemaSandbox:
        examiner: SchemaSandbox | None = getattr(self._own, "examiner", None)
        if examiner is None or examiner not in self._examiners:
            if self._closed:
                raise UnavailableError("this replica is going away")
            examiner = self._own.examiner = SchemaSandbox()
            self._examiners.add(examiner)
        return examiner

    def _drop(self, examiner: SchemaSandbox) -> None:
        self._examiners.discard(examiner)
        examiner.close()
