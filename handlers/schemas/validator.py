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
from handlers.schemas.dialects import LoadedSchemas
from handlers.schemas.interface import (
    MAX_SCHEMA_BYTES,
    CompiledSchema,
    CompileResult,
    Mismatch,
    invalid_schema,
    mismatch,
)
from handlers.schemas.sandbox import CpuTimeExceededError, SandboxDiedError, SchemaSandbox
from handlers.schemas.sandbox_protocol import CheckTask, CompileTask, LoadTask

T = TypeVar("T")

log = structlog.get_logger("schemas")

# Weight times bytes that may be checked in the event loop: ten milliseconds at worst.
MAX_INLINE_COST = 20_000_000
LOADED_LIMIT = 128
COMPILE_SECONDS = 3.0
CHECK_SECONDS = 1.0
QUEUE_TIMEOUT = 30.0
# How many checks may be queued, in all and per tenant.
WAITING_LIMIT = 2_000
TENANT_LIMIT = 500


class SchemaValidator:
    """Compiles and checks for one process. Close it at the end."""

    def __init__(self, sandboxes: int = 2, timeout: float = QUEUE_TIMEOUT) -> None:
        self._timeout = timeout
        self._loaded = LoadedSchemas(LOADED_LIMIT)
        self._checking = ThreadPoolExecutor(sandboxes, "schema-check")
        self._compiling = ThreadPoolExecutor(sandboxes, "schema-compile")
        self._own = threading.local()
        self._sandboxes: set[SchemaSandbox] = set()
        self._locks: WeakValueDictionary[tuple[int, ThreadPoolExecutor], asyncio.Lock] = (
            WeakValueDictionary()
        )
        self._waiting: Counter[int] = Counter()
        self._closed = False

    async def compile(self, tenant: int, kind: SchemaType, text: str) -> CompileResult:
        if len(text.encode()) > MAX_SCHEMA_BYTES:
            return invalid_schema(f"larger than {MAX_SCHEMA_BYTES} bytes")
        return await self._in_sandbox(tenant, self._compiling, lambda: self._compile(kind, text))

    async def check(
        self, tenant: int, compiled: CompiledSchema, payload: bytes, content_type: str
    ) -> list[Mismatch]:
        weight = compiled.weight
        if weight is not None and weight * len(payload) <= MAX_INLINE_COST:
            check = self._loaded.get(compiled.key) or self._loaded.load(compiled)
            return check(payload, content_type)
        return await self._in_sandbox(
            tenant, self._checking, lambda: self._check(compiled, payload, content_type)
        )

    def close(self) -> None:
        """End the sandboxes; calls that wait for them get no answer."""
        self._closed = True
        for pool in (self._checking, self._compiling):
            pool.shutdown(wait=False, cancel_futures=True)
        for sandbox in list(self._sandboxes):
            self._drop(sandbox)

    async def _in_sandbox(self, tenant: int, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        """Run a task in a sandbox, by a thread that waits for it.

        A tenant has one task at a time, so that its slow tasks delay only itself.
        """
        if self._closed:
            raise UnavailableError("this replica is shutting down")
        if self._waiting[tenant] >= TENANT_LIMIT or self._waiting.total() >= WAITING_LIMIT:
            raise OverloadedError("too many schemas and payloads wait for their check")
        lock = self._locks.setdefault((tenant, pool), asyncio.Lock())
        self._waiting[tenant] += 1
        try:
            async with asyncio.timeout(self._timeout), lock:
                return await asyncio.get_running_loop().run_in_executor(pool, work)
        except OSError as error:
            log.warning("schema.check_timed_out", tenant=tenant, error=repr(error))
            raise UnavailableError(
                "the schema check did not start or end in time", retry_after=5
            ) from None
        finally:
            self._waiting[tenant] -= 1
            if not self._waiting[tenant]:
                del self._waiting[tenant]

    # The methods below run in a thread

    def _check(self, compiled: CompiledSchema, payload: bytes, content_type: str) -> list[Mismatch]:
        task = CheckTask(compiled.key, payload, content_type)
        for last in (False, True):
            sandbox = self._sandbox()
            try:
                answer = sandbox.run(task, CHECK_SECONDS, self._timeout)
                if answer.unknown:
                    sandbox.run(LoadTask(compiled), COMPILE_SECONDS, self._timeout)
                    answer = sandbox.run(task, CHECK_SECONDS, self._timeout)
            except CpuTimeExceededError:
                self._drop(sandbox)
                return [mismatch("", f"a payload that is checked within {CHECK_SECONDS:g} s")]
            except SandboxDiedError as error:
                # Earlier schemas may have filled its memory: try once in a new process.
                self._drop(sandbox)
                log.warning(
                    "schema.check_crashed", key=compiled.key.hex(), last=last, error=str(error)
                )
            except BaseException:
                self._drop(sandbox)
                raise
            else:
                return answer.mismatches
        return [mismatch("", "a payload that can be checked with the memory there is")]

    def _compile(self, kind: SchemaType, text: str) -> CompileResult:
        """Compile in a sandbox of its own, which ends with the task."""
        with SchemaSandbox() as sandbox:
            try:
                answer = sandbox.run(CompileTask(kind, text), COMPILE_SECONDS, self._timeout)
            except CpuTimeExceededError:
                return invalid_schema(f"it takes longer than {COMPILE_SECONDS:g} s to compile")
            except SandboxDiedError:
                return invalid_schema(
                    "it breaks the compiler: too deep, or too much for the memory"
                )
        return answer.compiled or invalid_schema("it cannot be compiled")

    def _sandbox(self) -> SchemaSandbox:
        sandbox: SchemaSandbox | None = getattr(self._own, "sandbox", None)
        if sandbox is None or sandbox not in self._sandboxes:
            if self._closed:
                raise UnavailableError("this replica is shutting down")
            sandbox = self._own.sandbox = SchemaSandbox()
            self._sandboxes.add(sandbox)
        return sandbox

    def _drop(self, sandbox: SchemaSandbox) -> None:
        self._sandboxes.discard(sandbox)
        sandbox.close()
