"""`muster status`: how the instance is doing."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict

from rich.status import Status

from cli.operations.rates import Rates, Sample, rates_by_actor, total_rates
from cli.operations.status_view import status_view
from cli.shell.client import Client
from cli.shell.context import CommandContext, command, err
from cli.shell.watching import WatchOptions, show_or_watch

_MAX_SAMPLES = 3
StatusState = tuple[Sample, Mapping[str, Rates]]


class StatusReader:
    """Reads the status, with the rates since the sample before."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._before: Sample | None = None

    async def read(self) -> StatusState:
        sample = Sample(await self._client.get("/api/status"))
        rates = rates_by_actor(self._before or sample, sample)
        if rates or self._before is None:
            self._before = sample
        return sample, rates

    async def read_with_rates(self, every: float) -> StatusState:
        """Read until the actors have reported twice, if they report at all."""
        state = await self.read()
        for _ in range(_MAX_SAMPLES):
            await asyncio.sleep(every)
            state = await self.read()
            if state[1]:
                break
        return state


@command
async def status(shell: CommandContext, options: WatchOptions) -> None:
    """Show actors, hot correlations, flush rate and backlog.

    Rates are measured between two polls. With --watch and --json each poll is one line.
    """
    async with shell.connect() as client:
        reader = StatusReader(client)

        async def read_once() -> StatusState:
            with Status("Measuring …", console=err):
                return await reader.read_with_rates(options.every)

        await show_or_watch(
            shell,
            options,
            reader.read if options.watch else read_once,
            lambda state: status_view(client.instance.url, *state),
            _document,
        )


def _document(state: StatusState) -> dict[str, object]:
    sample, rates = state
    by_actor = {name: asdict(rate) for name, rate in rates.items()}
    return {**sample.report, "rates": {"total": asdict(total_rates(rates)), "actors": by_actor}}
