"""DBOS: a workflow per correlation that receives two messages, replayable step by step."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from dbos import DBOS, SetWorkflowID

from bench.harness import Measure
from bench.load import API_BODY, KAFKA_BODY
from bench.stage import Stage

IN_FLIGHT = 64


async def measure(stage: Stage, correlations: int) -> Measure:
    """As many workflows as are worth it in flight; each gets both messages at once."""
    dsn = await stage.empty_database()
    DBOS(
        config={
            "name": "bench",
            "system_database_url": dsn,
            "run_admin_server": False,
            "log_level": "ERROR",
        }
    )

    @DBOS.workflow()
    async def wait_for_both() -> str:
        first = await DBOS.recv_async("api_response", timeout_seconds=60)
        second = await DBOS.recv_async("kafka_event", timeout_seconds=60)
        return f"{first}{second}"

    DBOS.launch()
    gate = asyncio.Semaphore(IN_FLIGHT)

    async def one(number: int) -> None:
        async with gate:
            with SetWorkflowID(f"bench-{number}"):
                handle = await DBOS.start_workflow_async(wait_for_both)
            await DBOS.send_async(f"bench-{number}", API_BODY.decode(), "api_response")
            await DBOS.send_async(f"bench-{number}", KAFKA_BODY.decode(), "kafka_event")
            assert await handle.get_result() == API_BODY.decode() + KAFKA_BODY.decode()

    try:
        cpu, started = stage.cpu_seconds(), time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(correlations)))
        seconds, cpu = time.perf_counter() - started, stage.cpu_seconds() - cpu
    finally:
        DBOS.destroy(destroy_registry=True)
        # It had made its own threads the loop's, and has just ended them.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
        await stage.drop(dsn)
    return Measure(3 * correlations, seconds, cpu)
