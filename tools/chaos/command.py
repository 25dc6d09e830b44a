"""`muster chaos`: break the local instance on purpose and see what it keeps."""

import os
import random
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from cli.shell.client import connect
from cli.shell.context import CommandContext, JsonFlag, err, print_result, subcommand
from cli.shell.errors import CommandError, InputError
from cli.shell.instance import find_instance
from cli.shell.lazy import command_group
from cli.shell.options import argument, option
from host.client import running_instance
from host.errors import HostError
from host.instance import HostStage
from host.postgres import embedded
from tools.chaos.ack_log import read_ack_log
from tools.chaos.database_audit import open_database_audit
from tools.chaos.exercise import DrillPlan, run_drill
from tools.chaos.fault import Fault, FaultRun, LocalInstance
from tools.chaos.faults import database, heavy_waits
from tools.chaos.faults.kills import KILLS
from tools.chaos.faults.neighbour import neighbour
from tools.chaos.faults.overload import overload
from tools.chaos.faults.slow_bodies import slow_bodies
from tools.chaos.faults.slow_readers import slow_readers
from tools.chaos.reconcile import by_correlation, reconcile
from tools.chaos.report import (
    ChaosReport,
    reconciliation_document,
    reconciliation_view,
    report_view,
)
from tools.chaos.screen import Screen

_ALL = (
    *KILLS,
    database.restart,
    database.outage,
    database.read_only,
    database.frozen,
    overload,
    slow_readers,
    slow_bodies,
    heavy_waits.hot_correlation,
    heavy_waits.early_flood,
    heavy_waits.large_specs,
    heavy_waits.large_results,
    neighbour,
)
FAULTS: dict[str, Fault] = {fault.name: fault for fault in _ALL}
app = command_group("muster chaos run kill-shard --kills 5")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosOptions:
    """How hard to hit, and how much load meanwhile."""

    times: int | None = option(
        "How many kills, restarts or bad readers.", "--times", "--kills", min=1
    )
    seconds: float | None = option("How long a fault lasts that has a length.", min=1)
    rate: float = option(
        "New correlations a second, about four requests each.", default=30.0, min=1
    )
    seed: int | None = option("Seed of load and fault; a random one if not given.", min=0)
    floor: int = option(
        "Acknowledged requests below which the run proves nothing.", default=100, min=1
    )


@subcommand(app, "list", "muster chaos list")
async def list_(as_json: JsonFlag = False) -> None:
    """List the faults."""
    table = Table.grid(padding=(0, 2))
    for fault in FAULTS.values():
        table.add_row(Text(fault.name, style="bold"), fault.summary)
    document = [{"name": fault.name, "summary": fault.summary} for fault in FAULTS.values()]
    print_result(document, table, as_json=as_json)


@subcommand(
    app,
    "run",
    "muster chaos run kill-shard --kills 5",
    "muster chaos run postgres-gone --seconds 60",
)
async def run(
    options: ChaosOptions,
    shell: CommandContext,
    name: str = argument("Fault: see `muster chaos list`.", metavar="FAULT"),
) -> None:
    """Run one fault against the local instance, under load, and print the report.

    Exit code 0 only if nothing acknowledged was lost, nothing ended twice, no wait has data of
    another, and enough was acknowledged to say so. What was acknowledged is logged in the data
    folder under chaos/.
    """
    if name not in FAULTS:
        raise InputError(f"There is no fault '{name}': choose one of {', '.join(FAULTS)}.")
    local = find_local_instance(shell.url, shell.key, shell.data_dir)
    report = await run_fault(FAULTS[name], local, options)
    shell.print(report.document(), report_view(report))
    if not report.clean:
        raise typer.Exit(1)


@subcommand(app, "account", "muster chaos account .muster/chaos/1f0c9a2b.jsonl")
async def account(
    shell: CommandContext,
    ack_log: Path = argument("The ack log of a run.", metavar="FILE"),
    floor: int = option("As in `muster chaos run`.", default=100, min=1),
) -> None:
    """Compare the ack log of an earlier run with what the database has now.

    For a run that was cut off, or to look again. What a reader of streams was shown is not in the
    log, so that part of the report is missing here.
    """
    local = find_local_instance(shell.url, shell.key, shell.data_dir)
    try:
        acks = read_ack_log(ack_log)
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"Cannot read {ack_log} as the ack log of a run: {error}.") from error
    async with open_database_audit(local.dsn, local.key) as audit:
        stored = await audit.read(by_correlation(acks))
    found = reconcile(acks, stored, {}, floor=floor)
    shell.print(reconciliation_document(found), reconciliation_view(found))
    if not found.clean:
        raise typer.Exit(1)


async def run_fault(fault: Fault, local: LocalInstance, options: ChaosOptions) -> ChaosReport:
    """Run one fault from the first request to the report."""
    if fault.needs_embedded and not local.embedded:
        raise CommandError(
            f"{fault.name} stops PostgreSQL, which only the embedded one may be: this instance "
            "uses another."
        )
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    plan = DrillPlan(
        seed=seed, folder=local.data_dir / "chaos", rate=options.rate, floor=options.floor
    )
    began = time.monotonic()
    screen = Screen(err, fault)
    async with (
        screen.show_progress(),
        connect(local.instance) as client,
        run_drill(local, plan) as drill,
    ):
        screen.run = fault_run = FaultRun(
            local=local,
            drill=drill,
            client=client,
            rng=random.Random(seed),  # noqa: S311
            times=options.times or fault.times,
            seconds=options.seconds or fault.seconds,
            say=screen.say,
        )
        await fault.inject(fault_run)
    return ChaosReport(
        fault=fault.name,
        seed=seed,
        seconds=time.monotonic() - began,
        result=drill.result,
        disruptions=fault_run.disruptions,
        checks=fault_run.checks,
    )


def find_local_instance(url: str | None, key: str | None, data_dir: Path) -> LocalInstance:
    """Find the running instance of a data folder; refuse one that is not on this machine."""
    try:
        host = running_instance(data_dir)
    except HostError as error:
        raise CommandError(str(error)) from error
    found = find_instance(url, key, data_dir)
    if found.url != host.url.rstrip("/") or not found.is_local:
        raise CommandError(
            f"{found.url} is not the instance of {data_dir} ({host.url}): chaos breaks only what "
            "`muster up` started on this machine."
        )
    if host.stage is not HostStage.UP:
        raise CommandError(f"{host.url} is {host.stage}: try again once it is up.")
    if found.key is None:
        raise CommandError(f"There is no admin key in {data_dir}: give one with --key.")
    server = embedded.running(data_dir)
    dsn = server.dsn if server else os.environ.get("MUSTER_DATABASE_URL")
    if not dsn:
        raise CommandError(
            "This instance uses a PostgreSQL of its own: set MUSTER_DATABASE_URL, so that what "
            "it keeps can be compared with what it said."
        )
    return LocalInstance(
        url=found.url,
        key=found.key,
        dsn=dsn,
        data_dir=data_dir,
        run_dir=host.run_dir,
        embedded=server is not None,
    )
