"""`muster chaos`: break the local instance on purpose and see what it keeps."""

import random
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from cli.shell.client import connect
from cli.shell.context import CommandContext, JsonFlag, command, err, out, print_json
from cli.shell.errors import CommandError, InputError
from cli.shell.instance import Instance
from cli.shell.lazy import SETTINGS, example
from tools.chaos.ack_log import read_ack_log
from tools.chaos.catalogue import FAULTS, find_fault
from tools.chaos.database_audit import open_database_audit
from tools.chaos.exercise import ChaosTarget, DrillPlan, run_drill
from tools.chaos.fault import Fault, FaultRun, LocalInstance
from tools.chaos.local import find_local_instance
from tools.chaos.reconcile import reconcile
from tools.chaos.report import (
    ChaosReport,
    reconciliation_document,
    reconciliation_view,
    report_view,
)
from tools.chaos.screen import Screen

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="Break the local instance on purpose, under load, and account for every event.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosOptions:
    """How hard to hit, and how much load meanwhile."""

    times: Annotated[
        int | None,
        typer.Option("--times", "--kills", min=1, help="How many kills, restarts or bad readers."),
    ] = None
    seconds: Annotated[
        float | None, typer.Option(min=1, help="How long a fault lasts that has a length.")
    ] = None
    rate: Annotated[
        float, typer.Option(min=1, help="New correlations a second, about four requests each.")
    ] = 30.0
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of load and fault; a random one if not given.")
    ] = None
    floor: Annotated[
        int, typer.Option(min=1, help="Acknowledged requests below which the run proves nothing.")
    ] = 100


@app.command("list", epilog=example("muster chaos list"))
@command
async def list_(as_json: JsonFlag = False) -> None:
    """List the faults."""
    if as_json:
        print_json([{"name": fault.name, "summary": fault.summary} for fault in FAULTS.values()])
        return
    table = Table.grid(padding=(0, 2))
    for fault in FAULTS.values():
        table.add_row(Text(fault.name, style="bold"), fault.summary)
    out.print(table)


@app.command(
    "run",
    epilog=example(
        "muster chaos run kill-shard --kills 5", "muster chaos run postgres-gone --seconds 60"
    ),
)
@command
async def run(
    name: Annotated[str, typer.Argument(help="Fault: see `muster chaos list`.", metavar="FAULT")],
    options: ChaosOptions,
    shell: CommandContext,
) -> None:
    """Run one fault against the local instance, under load, and print the account.

    Exit code 0 only if nothing acknowledged was lost, nothing ended twice, no wait holds what
    belongs to another, and enough was acknowledged to say so. The load's own book is kept in the
    data folder under chaos/.
    """
    fault = find_fault(name)
    local = find_local_instance(shell.url, shell.key, shell.data_dir)
    report = await run_fault(fault, local, options)
    print_json(report.document()) if shell.as_json else out.print(report_view(report))
    if not report.clean:
        raise typer.Exit(1)


@app.command("account", epilog=example("muster chaos account .muster/chaos/1f0c9a2b.jsonl"))
@command
async def account(
    ledger: Annotated[Path, typer.Argument(help="A run's own book.", metavar="FILE")],
    shell: CommandContext,
    floor: Annotated[int, typer.Option(min=1, help="As in `muster chaos run`.")] = 100,
) -> None:
    """Compare the book of an earlier run with what the database has now.

    For a run that was cut off, or to look again. What a reader of streams was shown is not in the
    book, so that part of the account is missing here.
    """
    local = find_local_instance(shell.url, shell.key, shell.data_dir)
    try:
        acks = read_ack_log(ledger)
    except (OSError, ValueError) as error:
        raise InputError(f"Cannot read {ledger} as a run's book: {error}.") from error
    async with open_database_audit(local.dsn, local.key) as books:
        kept = await books.read(dict.fromkeys(ack.correlation_key for ack in acks))
    found = reconcile(acks, kept, {}, floor=floor)
    print_json(reconciliation_document(found)) if shell.as_json else out.print(
        reconciliation_view(found)
    )
    if not found.clean:
        raise typer.Exit(1)


async def run_fault(fault: Fault, local: LocalInstance, options: ChaosOptions) -> ChaosReport:
    """One fault from the first request to the account."""
    if fault.needs_embedded and not local.embedded:
        raise CommandError(
            f"{fault.name} stops PostgreSQL, and this one is not ours: it needs the embedded one."
        )
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    plan = DrillPlan(
        seed=seed, folder=local.data_dir / "chaos", rate=options.rate, floor=options.floor
    )
    target = ChaosTarget(local.url, local.key, local.dsn)
    began = time.monotonic()
    screen = Screen(err, fault)
    async with (
        screen.show_progress(),
        connect(Instance(local.url, local.key)) as client,
        run_drill(target, plan) as drill,
    ):
        scene = FaultRun(
            local=local,
            drill=drill,
            client=client,
            rng=random.Random(seed),  # noqa: S311
            times=options.times or fault.times,
            seconds=options.seconds or fault.seconds,
            say=screen.say,
        )
        screen.show(scene)
        await fault.inject(scene)
    return ChaosReport(
        fault=fault.name,
        seed=seed,
        seconds=time.monotonic() - began,
        result=drill.result,
        disruptions=scene.disruptions,
        checks=scene.checks,
    )
