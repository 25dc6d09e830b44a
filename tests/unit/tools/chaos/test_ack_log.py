"""The ledger outlives whoever wrote it."""

from pathlib import Path

import pytest

from tools.chaos.ack_log import Ack, AckLog, make_ack, read_ack_log
from tools.chaos.scenario import make_scenario


def acks(count: int) -> list[Ack]:
    scenario = make_scenario("run", 1, 1)
    step = scenario.waves[0][0]
    return [make_ack(scenario, step, {"verdict": "matched"}, float(n)) for n in range(count)]


def test_what_was_noted_is_in_the_file_before_it_is_closed(tmp_path: Path) -> None:
    ledger = AckLog.create(tmp_path / "book" / "run.jsonl")
    for ack in acks(3):
        ledger.note(ack)
    assert read_ack_log(ledger.path) == ledger.acks == acks(3)
    ledger.close()
    with pytest.raises(ValueError, match="closed"):
        ledger.note(acks(1)[0])


def test_a_line_that_was_cut_off_was_never_promised(tmp_path: Path) -> None:
    ledger = AckLog.create(tmp_path / "run.jsonl")
    for ack in acks(2):
        ledger.note(ack)
    ledger.close()
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole[:-10])
    assert read_ack_log(ledger.path) == acks(1)


def test_a_book_is_never_written_over(tmp_path: Path) -> None:
    AckLog.create(tmp_path / "run.jsonl").close()
    with pytest.raises(FileExistsError):
        AckLog.create(tmp_path / "run.jsonl")


def test_a_ledger_that_begins_anew_leaves_out_what_it_knows(tmp_path: Path) -> None:
    ledger = AckLog.create(tmp_path / "run.jsonl")
    scenario = make_scenario("run", 1, 2)
    later = make_ack(scenario, scenario.waves[0][0], {}, 1.0)
    ledger.note(acks(1)[0])
    ledger.forget_earlier()
    ledger.note(acks(1)[0])
    ledger.note(later)
    assert ledger.acks == [later]
    assert len(read_ack_log(ledger.path)) == 3
    ledger.close()
