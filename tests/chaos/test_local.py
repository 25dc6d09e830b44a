"""`muster chaos` against a running instance: short here, with the full numbers by `make chaos`."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from storage.postgres.pool import Pool
from tests.support.commands import refused
from tests.support.product import Product, run_cli, until
from tests.support.tenants import in_database
from tools.chaos.ack_log import read_ack_log
from tools.chaos.command import FAULTS

LONG = os.environ.get("MUSTER_CHAOS") == "long"
SHORT = {
    "kills": ["--kills", "2"],
    "postgres-restart": ["--times", "1"],
    "postgres-gone": ["--seconds", "5"],
    "overload": ["--seconds", "3", "--rate", "10"],
    "postgres-read-only": ["--seconds", "4"],
    "postgres-frozen": ["--seconds", "4"],
    "slow-bodies": ["--times", "300", "--seconds", "4", "--rate", "10"],
    "hot-correlation": ["--times", "600", "--seconds", "6", "--rate", "10"],
    "early-flood": ["--times", "400", "--seconds", "6", "--rate", "10"],
    "large-specs": ["--times", "20", "--seconds", "6", "--rate", "10"],
    "large-results": ["--times", "3", "--seconds", "6", "--rate", "10"],
    "noisy-neighbour": ["--seconds", "6", "--rate", "5"],
    "slow-readers": ["--times", "20", "--seconds", "3", "--rate", "10"],
}
# `kills` meets these now and then; on their own they have their turn by `make chaos`.
LONG_ONLY = {"kill-controller", "kill-proxy"}
# Without Kafka there is nothing to kill.
NEEDS_KAFKA = {"kill-kafka-ingest", "kill-relay"}
PATIENCE = 1_500 if LONG else 300


def chaos(*words: str) -> list[str]:
    return [sys.executable, "-m", "cli.main", "chaos", *words]


def environment(product: Product) -> dict[str, str]:
    return os.environ | {"MUSTER_DATA_DIR": str(product.data_dir), "NO_COLOR": "1"}


def strike(product: Product, name: str, *flags: str) -> dict[str, Any]:
    """Run a fault; its account, which has to be clean."""
    done = subprocess.run(
        chaos("run", name, "--json", "--floor", "20", *flags),
        env=environment(product),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.timeout(PATIENCE + 600)
@pytest.mark.parametrize(
    "name", [n for n in FAULTS if n not in NEEDS_KAFKA and (LONG or n not in LONG_ONLY)]
)
def test_nothing_is_lost_doubled_or_contaminated_by(name: str, mortal: Product) -> None:
    flags = [] if LONG else SHORT.get(name, ["--kills", "1"])
    account = strike(mortal, name, *flags)
    assert account["clean"]
    assert account["acknowledged"] >= 20
    assert set(account["flaws"].values()) == {0}
    assert account["watched"] > 0


def test_a_run_that_was_killed_can_be_accounted_for_by_its_book(mortal: Product) -> None:
    run = subprocess.Popen(
        chaos("run", "kill-shard", "--kills", "50"),
        env=environment(mortal),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        known = set(books_of(mortal))
        book = until("a new book", lambda: next(iter(set(books_of(mortal)) - known), None))
        until("some lines in it", lambda: len(read_ack_log(book)) > 60)
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait(timeout=10)

    def ended() -> bool:
        told = account_of(mortal, book)
        return bool(told["clean"])

    until("all of it has ended well", ended, within=60)


def test_what_is_taken_from_the_database_is_missed(mortal: Product) -> None:
    """The account is no decoration: a line that is gone is found to be gone."""
    book = Path(strike(mortal, "kill-controller", "--kills", "1")["ledger"])
    acks = read_ack_log(book)
    # Some events are sent again on purpose: each acknowledgement of one counts.
    acked = Counter(ack.event_id for ack in acks)
    victim = next(ack for ack in acks if ack.verdict == "matched" and acked[ack.event_id] == 1)

    async def steal(pool: Pool) -> str:
        return await pool.execute(
            "delete from wait_state_events where event_id like $1", f"%/{victim.event_id}"
        )

    assert in_database(mortal, steal) == "DELETE 1"
    told = account_of(mortal, book)
    assert not told["clean"]
    assert told["flaws"]["lost"] == 1
    assert victim.event_id in told["findings"][0]


def test_only_what_runs_here_is_broken(mortal: Product, tmp_path: Path) -> None:
    folder = str(mortal.data_dir)
    elsewhere = ["chaos", "run", "kills", "--url", "http://127.0.0.1:9", "--data-dir", folder]
    assert "breaks only what `muster up` started" in refused(run_cli(*elsewhere))
    nowhere = run_cli("chaos", "run", "kills", "--data-dir", str(tmp_path))
    assert "Nothing runs on" in refused(nowhere)
    unknown = run_cli("chaos", "run", "meteor", "--data-dir", folder)
    assert "There is no fault 'meteor'" in refused(unknown, code=2)


def test_every_fault_is_listed_with_a_line(mortal: Product) -> None:
    told = json.loads(mortal.cli("chaos", "list", "--json").stdout)
    assert [fault["name"] for fault in told] == list(FAULTS)
    assert all(fault["summary"].endswith(".") for fault in told)


def books_of(product: Product) -> list[Path]:
    return [path for path in (product.data_dir / "chaos").glob("*.jsonl") if path.stat().st_size]


def account_of(product: Product, book: Path) -> dict[str, Any]:
    done = product.cli("chaos", "account", str(book), "--json", "--floor", "10", check=False)
    document: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if document["clean"] else 1), done.stderr
    return document
