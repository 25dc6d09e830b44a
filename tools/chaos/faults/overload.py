"""Ten times what the instance can serve: most are asked to come back, the others notice little."""

from urllib.parse import urlsplit

from tools.chaos.ack_log import read_ack_log
from tools.chaos.fault import FaultRun, fault
from tools.chaos.faults.flood import FloodOrder, FloodResult, run_flood
from tools.chaos.faults.processes import MEGABYTE, bounded_memory

OVERLOAD_FACTOR = 10
_PEAK_SECONDS = 4.0  # at most; half of the flood's own
_FEW, _MANY = 64, 3_000  # connections; HAProxy has room for 4096
_EXPECTED = {200, 201, 429, 503}
MAX_MEMORY_GROWTH = 256 * MEGABYTE
MIN_HEARD_FACTOR = 1.5  # times the peak that must have reached it
MAX_SLOWDOWN = 10  # times the 99th percentile at the peak
ALLOWED_SECONDS = 2.0  # seconds, however fast it is at the peak


@fault(
    "overload",
    "Ten times the measured peak is offered: 429 or 503, and memory stays bounded.",
)
async def overload(run: FaultRun) -> None:
    """Measure the peak, offer ten times as much, then look whether all is as before."""
    peak_seconds = min(_PEAK_SECONDS, run.seconds / 2)
    before = await _flood_instance(run, "peak", peak_seconds, _FEW)
    rate = before.rate * OVERLOAD_FACTOR
    async with bounded_memory(run, MAX_MEMORY_GROWTH):
        flood = await _flood_instance(run, "flood", run.seconds, _MANY, rate)
    after = await _flood_instance(run, "after", peak_seconds, _FEW)
    _check_flood(run, before, flood, after)


async def _flood_instance(
    run: FaultRun, name: str, seconds: float, connections: int, rate: float | None = None
) -> FloodResult:
    address, plan = urlsplit(run.local.url), run.drill.plan
    ack_log = plan.folder / f"{plan.run}-{name}.jsonl"
    result = await run_flood(
        FloodOrder(
            host=str(address.hostname),
            port=address.port or 80,
            key=run.local.key,
            run=ack_log.stem,
            ack_log=str(ack_log),
            seconds=seconds,
            connections=connections,
            rate=rate,
        )
    )
    # What the flood was acknowledged is reconciled as well.
    run.drill.ack_log.acks.extend(read_ack_log(ack_log))
    run.note(f"{name}: {_describe(result)}")
    return result


def _check_flood(
    run: FaultRun, before: FloodResult, flood: FloodResult, after: FloodResult
) -> None:
    offered, heard = (n / flood.seconds / before.rate for n in (flood.offered, flood.sent))
    # What finds every connection busy never reaches the instance. It counts as offered, but only
    # what reached it can be too much.
    run.check(
        "more was offered than it can serve",
        offered > OVERLOAD_FACTOR * 0.9 and heard > MIN_HEARD_FACTOR,
        f"{offered:.1f} times {before.rate:,.0f} a second, of which {heard:.1f} reached it; the "
        f"other {flood.held_back:,} found all {_MANY:,} connections busy",
    )
    run.check(
        "callers are asked to come back",
        flood.refused > 0 and flood.bare == 0,
        f"{flood.refused:,} by 429 or 503, {flood.bare} of them without Retry-After",
    )
    others = {status: n for status, n in flood.answers.items() if status not in _EXPECTED}
    run.check("nothing else is answered", not others, f"{others or 'no other answer'}")
    p99, at_peak = flood.percentile(0.99), max(o.percentile(0.99) for o in (before, after))
    bound = max(ALLOWED_SECONDS, MAX_SLOWDOWN * at_peak)
    run.check(
        "the accepted ones are answered soon",
        p99 <= bound,
        f"p99 {p99:.2f} s, {at_peak:.2f} s at the peak; the bound is {bound:.2f} s",
    )
    run.check(
        "the flood does not stop the work",
        flood.rate > before.rate / 5,
        f"{flood.rate:,.0f} a second accepted, {before.rate:,.0f} before",
    )
    run.check(
        "all is as before when it is over",
        after.rate > before.rate / 2,
        f"{after.rate:,.0f} a second, {before.rate:,.0f} before",
    )


def _describe(result: FloodResult) -> str:
    answers = ", ".join(f"{count:,} by {status}" for status, count in result.answers.items())
    p50, p99 = (result.percentile(share) * 1000 for share in (0.5, 0.99))
    return f"{result.rate:,.0f} a second, p50 {p50:.0f} ms, p99 {p99:.0f} ms ({answers})"
