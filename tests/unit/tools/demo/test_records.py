"""The record demo without a network: what it promises and how it is found."""

from tests.support.command_line import FakeMuster
from tools.demo.records.script import SCENARIOS


def test_every_scene_has_a_key_of_its_own_and_facts_to_compare() -> None:
    assert len({scenario.key for scenario in SCENARIOS}) == len(SCENARIOS) == 6
    assert all(scenario.facts for scenario in SCENARIOS)


def test_the_command_is_in_the_help(muster: FakeMuster) -> None:
    shown = muster.run("demo", "records", "--help")
    assert (shown.exit_code, "muster demo records --fast" in shown.stdout) == (0, True)
    assert "records" in muster.run("demo", "--help").stdout
