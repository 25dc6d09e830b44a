"""The small decisions of `muster chaos`: whom to kill, what to send, what came back."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import actors
from cli.shell.errors import InputError
from cli.shell.sse import ServerEvent
from tests.support.command_line import Muster
from tools.chaos.catalogue import FAULTS, fault_of
from tools.chaos.database_audit import kept_of, signature
from tools.chaos.fault import Scene
from tools.chaos.faults.flood import Order, Outcome, request_of, split_answer
from tools.chaos.faults.memory import MEGABYTE, Memory
from tools.chaos.faults.overload import _judge
from tools.chaos.faults.victims import Kind, kind_of
from tools.chaos.receiver import line_of
from tools.chaos.scenario import Door
from tools.chaos.stored_waits import Record

ORDER = Order(
    host="127.0.0.1", port=8000, key="k", run="r", ledger="/tmp/l", seconds=1, connections=1
)


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("ray::ShardActor", Kind.SHARD),
        ("ray::ShardActor.take", Kind.SHARD),
        ("ray::TimerActor", Kind.TIMER),
        ("ray::PoolActor", Kind.POOL),
        ("ray::DispatchActor.report", Kind.DISPATCH),
        ("ray::KafkaIngestActor", Kind.KAFKA_INGEST),
        ("ray::RelayActor", Kind.RELAY),
        ("ray::ServeReplica:muster:ingress", Kind.INGRESS),
        ("ray::HAProxyManager", Kind.PROXY),
        ("haproxy", Kind.HAPROXY),
    ],
)
def test_processes_are_known_by_their_titles(title: str, kind: Kind) -> None:
    assert kind_of(title) is kind


def test_every_actor_may_be_killed() -> None:
    """One that is added must be added here, too."""
    folder = Path(actors.__file__).parent
    found = [re.findall(r"^class (\w+Actor)\b", p.read_text(), re.M) for p in folder.rglob("*.py")]
    names = {name for names in found for name in names}
    assert len(names) > 6
    assert [name for name in sorted(names) if kind_of(f"ray::{name}") is None] == []
    assert {f"kill-{kind}" for kind in Kind} < set(FAULTS)


@pytest.mark.parametrize("title", ["raylet", "gcs_server", "ray::IDLE", "python", "postgres"])
def test_what_the_node_itself_is_made_of_is_left_alone(title: str) -> None:
    assert kind_of(title) is None


def test_an_unknown_fault_names_those_that_exist() -> None:
    with pytest.raises(InputError, match="kill-shard"):
        fault_of("meteor")
    assert all(fault.name == name for name, fault in FAULTS.items())


def test_a_flood_registers_and_calls_back_in_turn() -> None:
    (wait, register, first), (again, callback, second) = (request_of(ORDER, n) for n in (6, 7))
    assert wait == again
    assert (register.door, callback.door) == (Door.REGISTER, Door.API)
    assert first.startswith(b"POST /api/wait-states HTTP/1.1\r\n")
    head, _, body = second.partition(b"\r\n\r\n")
    assert f"X-Execution-Id: {wait.execution_id}".encode() in head
    assert f"Content-Length: {len(body)}".encode() in head
    assert json.loads(body)["of"] == wait.scoped_id
    assert request_of(ORDER, 8)[0] != wait


def test_an_answer_is_read_once_it_is_whole() -> None:
    raw = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\n{}"
    assert all(split_answer(raw[:size]) is None for size in range(len(raw)))
    status, head, body = split_answer(raw) or (0, b"", b"")
    assert (status, body) == (503, b"{}")
    assert b"\r\nretry-after: 1" in head


def test_a_flood_s_outcome_tells_accepted_from_refused() -> None:
    outcome = Outcome(seconds=2, answers={200: 3, 201: 1, 429: 5, 503: 2, 500: 1})
    outcome.offered, outcome.held_back = 20, 8
    assert outcome.sent == 12
    outcome.latencies = [0.1, 0.2, 0.3, 9.0]
    assert (outcome.accepted, outcome.refused, outcome.rate) == (4, 7, 2.0)
    assert (outcome.percentile(0.5), outcome.percentile(0.99)) == (0.3, 9.0)
    assert Outcome(seconds=1).percentile(0.99) == 0.0


def test_memory_is_what_a_process_grew_since_it_was_first_seen() -> None:
    memory = Memory()
    for size in (100, 400, 200):
        memory.see(1, "shard", size * MEGABYTE)
    memory.see(2, "timer", 90 * MEGABYTE)
    assert memory.growth() == [("shard", 300 * MEGABYTE), ("timer", 0)]
    assert memory.within(300 * MEGABYTE)[0]
    holds, told = memory.within(299 * MEGABYTE)
    assert not holds
    assert told == "shard +300 MB, timer +0 MB; the bound is 299 MB for each"


def test_data_that_is_nobody_s_is_somebody_else_s() -> None:
    assert signature(b"") == {}
    assert signature(b'{"of": "e:c", "id": "a"}') == {"of": "e:c", "id": "a"}
    assert signature(b"[1]")["of"] != "e:c"
    assert signature(b"{}") == {"of": "None", "id": "None"}


def test_an_address_without_rows_is_kept_as_nothing() -> None:
    kept = kept_of(Record())
    assert kept.status is None
    assert (kept.lines, kept.parked) == ((), ())


def test_the_end_of_a_stream_carries_whose_result_it_is() -> None:
    output = {"api_response": {"of": "e:c", "id": "a"}, "kafka_event": {"of": "e:x", "id": "k"}}
    line = line_of(ServerEvent("ended", "3", json.dumps({"output": output})))
    assert (line.number, line.of) == (3, "e:c and e:x")
    line = line_of(ServerEvent("ended", "3", json.dumps({"output": None})))
    assert line.of is None


def test_without_an_instance_there_is_nothing_to_break(muster: Muster, tmp_path: Path) -> None:
    run = muster.run("chaos", "run", "kills", "--data-dir", str(tmp_path))
    assert run.exit_code == 1
    assert "Nothing runs on" in run.stderr


def test_the_faults_are_listed(muster: Muster) -> None:
    run = muster.run("chaos", "list")
    assert run.exit_code == 0
    assert all(name in run.stdout for name in FAULTS)


@pytest.mark.parametrize(
    ("offered", "held_back", "holds"),
    [(1_000, 0, True), (1_000, 700, True), (1_000, 900, False), (500, 0, False)],
)
def test_a_flood_that_nobody_heard_proves_nothing(
    offered: int, held_back: int, holds: bool
) -> None:
    peak = Outcome(seconds=1, answers={200: 100})
    flood = Outcome(seconds=1, offered=offered, held_back=held_back, answers={200: 90, 429: 10})
    checks: dict[str, bool] = {}
    told = SimpleNamespace(check=lambda name, holds, seen: checks.update({name: holds}))
    _judge(cast("Scene", told), peak, flood, peak)
    assert checks["more was offered than it can serve"] is holds
