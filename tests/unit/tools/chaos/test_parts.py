"""The small decisions of `muster chaos`: whom to kill, what to send, what came back."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import actors
from cli.shell.sse import ServerEvent
from tests.support.command_line import FakeMuster
from tools.chaos.command import FAULTS
from tools.chaos.database_audit import read_origin, stored_correlation
from tools.chaos.fault import FaultRun
from tools.chaos.faults.flood import FloodOrder, FloodResult, build_request
from tools.chaos.faults.overload import _check_flood
from tools.chaos.faults.processes import MEGABYTE, MemoryUsage, VictimKind, victim_kind
from tools.chaos.receiver import observed_event
from tools.chaos.scenario import RequestChannel
from tools.load.http import split_response

ORDER = FloodOrder(
    host="127.0.0.1", port=8000, key="k", run="r", ack_log="/tmp/l", seconds=1, connections=1
)


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("ray::ShardActor", VictimKind.SHARD),
        ("ray::ShardActor.take", VictimKind.SHARD),
        ("ray::TimerActor", VictimKind.TIMER),
        ("ray::PoolActor", VictimKind.POOL),
        ("ray::DispatchActor.report", VictimKind.DISPATCH),
        ("ray::KafkaIngestActor", VictimKind.KAFKA_INGEST),
        ("ray::RelayActor", VictimKind.RELAY),
        ("ray::ServeReplica:muster:ingress", VictimKind.INGRESS),
        ("ray::HAProxyManager", VictimKind.PROXY),
        ("haproxy", VictimKind.HAPROXY),
    ],
)
def test_processes_are_known_by_their_titles(title: str, kind: VictimKind) -> None:
    assert victim_kind(title) is kind


def test_every_actor_may_be_killed() -> None:
    """One that is added must be added here, too."""
    folder = Path(actors.__file__).parent
    found = [re.findall(r"^class (\w+Actor)\b", p.read_text(), re.M) for p in folder.rglob("*.py")]
    names = {name for names in found for name in names}
    assert len(names) > 6
    assert [name for name in sorted(names) if victim_kind(f"ray::{name}") is None] == []
    assert {f"kill-{kind}" for kind in VictimKind} < set(FAULTS)


@pytest.mark.parametrize("title", ["raylet", "gcs_server", "ray::IDLE", "python", "postgres"])
def test_what_the_node_itself_is_made_of_is_left_alone(title: str) -> None:
    assert victim_kind(title) is None


def test_an_unknown_fault_names_those_that_exist(muster: FakeMuster) -> None:
    run = muster.run("chaos", "run", "meteor")
    assert run.exit_code == 2
    assert "kill-shard" in run.stderr
    assert all(fault.name == name for name, fault in FAULTS.items())


def test_a_flood_registers_and_calls_back_in_turn() -> None:
    (wait, register, first), (again, callback, second) = (build_request(ORDER, n) for n in (6, 7))
    assert wait == again
    assert (register.channel, callback.channel) == (RequestChannel.REGISTER, RequestChannel.API)
    assert first.startswith(b"POST /api/wait-states HTTP/1.1\r\n")
    head, _, body = second.partition(b"\r\n\r\n")
    assert f"X-Execution-Id: {wait.execution_id}".encode() in head
    assert f"Content-Length: {len(body)}".encode() in head
    assert json.loads(body)["of"] == wait.scoped_id
    assert build_request(ORDER, 8)[0] != wait


def test_an_answer_is_read_once_it_is_whole() -> None:
    raw = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\n{}"
    assert all(split_response(raw[:size]) is None for size in range(len(raw)))
    status, head, body = split_response(raw) or (0, b"", b"")
    assert (status, body) == (503, b"{}")
    assert b"\r\nretry-after: 1" in head


def test_a_flood_s_outcome_tells_accepted_from_refused() -> None:
    outcome = FloodResult(seconds=2, answers={200: 3, 201: 1, 429: 5, 503: 2, 500: 1})
    outcome.offered, outcome.held_back = 20, 8
    assert outcome.sent == 12
    outcome.latencies = [0.1, 0.2, 0.3, 9.0]
    assert (outcome.accepted, outcome.refused, outcome.rate) == (4, 7, 2.0)
    assert (outcome.percentile(0.5), outcome.percentile(0.99)) == (0.3, 9.0)
    assert FloodResult(seconds=1).percentile(0.99) == 0.0


def test_memory_is_what_a_process_grew_since_it_was_first_seen() -> None:
    memory = MemoryUsage()
    for size in (100, 400, 200):
        memory.add_sample(1, "shard", size * MEGABYTE)
    memory.add_sample(2, "timer", 90 * MEGABYTE)
    assert memory.growth() == [("shard", 300 * MEGABYTE), ("timer", 0)]
    assert memory.within(300 * MEGABYTE)[0]
    holds, told = memory.within(299 * MEGABYTE)
    assert not holds
    assert told == "shard +300 MB, timer +0 MB; the bound is 299 MB for each"


def test_data_that_is_nobody_s_is_somebody_else_s() -> None:
    assert read_origin(b"") == {}
    assert read_origin(b'{"of": "e:c", "id": "a"}') == {"of": "e:c", "id": "a"}
    assert read_origin(b"[1]")["of"] != "e:c"
    assert read_origin(b"{}") == {"of": "None", "id": "None"}


def test_an_address_without_rows_is_kept_as_nothing() -> None:
    kept = stored_correlation(None)
    assert kept.status is None
    assert (kept.lines, kept.parked) == ((), ())


def test_the_end_of_a_stream_carries_whose_result_it_is() -> None:
    output = {"api_response": {"of": "e:c", "id": "a"}, "kafka_event": {"of": "e:x", "id": "k"}}
    line = observed_event(ServerEvent("ended", "3", json.dumps({"output": output})))
    assert (line.number, line.of) == (3, "e:c and e:x")
    line = observed_event(ServerEvent("ended", "3", json.dumps({"output": None})))
    assert line.of is None


def test_without_an_instance_there_is_nothing_to_break(muster: FakeMuster, tmp_path: Path) -> None:
    run = muster.run("chaos", "run", "kills", "--data-dir", str(tmp_path))
    assert run.exit_code == 1
    assert "Nothing runs on" in run.stderr


def test_the_faults_are_listed(muster: FakeMuster) -> None:
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
    peak = FloodResult(seconds=1, answers={200: 100})
    flood = FloodResult(seconds=1, offered=offered, held_back=held_back, answers={200: 90, 429: 10})
    checks: dict[str, bool] = {}
    told = SimpleNamespace(check=lambda name, holds, seen: checks.update({name: holds}))
    _check_flood(cast("FaultRun", told), peak, flood, peak)
    assert checks["more was offered than it can serve"] is holds
